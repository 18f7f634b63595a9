// SPDX-License-Identifier: Apache-2.0
// A vector whose memory is requested in large pages where the operating system has them (2 MiB on Linux, if transparent
// huge pages are not switched off).
//
// For arrays that are read at scattered places: a node's rows. The processor remembers the addresses of about 2000 pages.
// With 4 KiB a page, these cover 8 MB, and beyond them a read also waits for the page table, which in a virtual machine
// takes longer than the read itself. Small nodes gain most.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace mtboost {

template <typename T>
struct LargePageAllocator {
  using value_type = T;

  LargePageAllocator() noexcept = default;
  template <typename U>
  LargePageAllocator(const LargePageAllocator<U>&) noexcept {}

  T* allocate(std::size_t n) {
    const std::size_t n_bytes = n * sizeof(T);
    if (n_bytes < kSmallest) return std::allocator<T>().allocate(n);
    // Whole pages, so that the last one is a large page as well.
    void* const memory = ::operator new((n_bytes + kPage - 1) / kPage * kPage, std::align_val_t{kPage});
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    ::madvise(memory, (n_bytes + kPage - 1) / kPage * kPage, MADV_HUGEPAGE);  // only advice: it may be refused
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t n) noexcept {
    if (n * sizeof(T) < kSmallest)
      std::allocator<T>().deallocate(memory, n);
    else
      ::operator delete(memory, std::align_val_t{kPage});
  }
  friend bool operator==(const LargePageAllocator&, const LargePageAllocator&) noexcept { return true; }

 private:
  static constexpr std::size_t kPage = std::size_t{1} << 21;
  static constexpr std::size_t kSmallest = kPage;  // smaller arrays would waste most of a page
};

template <typename T>
using LargeArray = std::vector<T, LargePageAllocator<T>>;

}  // namespace mtboost
