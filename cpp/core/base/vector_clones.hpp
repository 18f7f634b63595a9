// SPDX-License-Identifier: Apache-2.0
// MTBOOST_VECTOR_CLONES before a function compiles it, with all it calls, twice: for any x86-64 and for those with AVX2,
// which the loader chooses where it can. Both give the same bits: nothing is reordered, no multiply-add is fused.
#pragma once

#include <version>  // defines __GLIBC__ where that is the C library

// The loader chooses before sanitizers are ready. Clang's clones leave out what they call.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && !defined(MTBOOST_SANITIZED)
#define MTBOOST_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v3", "default"), flatten))
#else
#define MTBOOST_VECTOR_CLONES
#endif
