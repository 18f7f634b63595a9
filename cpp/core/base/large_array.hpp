// SPDX-License-Identifier: Apache-2.0
// Vectors for one entry per row, value or slot. resize() leaves new entries unset: whoever fills them, several threads
// perhaps, is the first to touch their memory, which takes longer than the values themselves.
//
// LargeArray requests its memory in large pages where the operating system has them (2 MiB on Linux, if transparent huge
// pages are not switched off), for arrays that are read at scattered places: the table, row by row. The processor
// remembers the addresses of about 2000 pages. With 4 KiB a page, these cover 8 MB, and beyond them a read also waits for
// the page table, which in a virtual machine takes longer than the read itself. Small nodes gain most. Arrays that are read
// from front to back, or in a few MB at a time, gain nothing, and in a virtual machine a large page may take several times
// as long to get.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace mtboost {

template <typename T>
struct UnsetAllocator {
  using value_type = T;

  UnsetAllocator() noexcept = default;
  template <typename U>
  UnsetAllocator(const UnsetAllocator<U>&) noexcept {}

  T* allocate(std::size_t n) { return std::allocator<T>().allocate(n); }
  void deallocate(T* memory, std::size_t n) noexcept { std::allocator<T>().deallocate(memory, n); }
  template <typename U>
  void construct(U*) noexcept {
    static_assert(std::is_aggregate_v<U> || std::is_arithmetic_v<U>);  // the memory holds such entries without more ado
    static_assert(std::is_trivially_copyable_v<U>);
  }
  template <typename U, typename... Arguments>
  void construct(U* entry, Arguments&&... arguments) {
    ::new (static_cast<void*>(entry)) U(std::forward<Arguments>(arguments)...);
  }
  friend bool operator==(const UnsetAllocator&, const UnsetAllocator&) noexcept { return true; }
};

template <typename T>
struct LargePageAllocator : UnsetAllocator<T> {
  using value_type = T;

  LargePageAllocator() noexcept = default;
  template <typename U>
  LargePageAllocator(const LargePageAllocator<U>&) noexcept {}

  T* allocate(std::size_t n) {
    const std::size_t n_bytes = n * sizeof(T);
    if (n_bytes < kSmallest) return UnsetAllocator<T>::allocate(n);
    // Whole pages, so that the last one is a large page as well.
    void* const memory = ::operator new((n_bytes + kPage - 1) / kPage * kPage, std::align_val_t{kPage});
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    ::madvise(memory, (n_bytes + kPage - 1) / kPage * kPage, MADV_HUGEPAGE);  // only advice: it may be refused
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t n) noexcept {
    if (n * sizeof(T) < kSmallest)
      UnsetAllocator<T>::deallocate(memory, n);
    else
      ::operator delete(memory, std::align_val_t{kPage});
  }

 private:
  static constexpr std::size_t kPage = std::size_t{1} << 21;
  static constexpr std::size_t kSmallest = kPage;  // smaller arrays would waste most of a page
};

template <typename T>
using UnsetArray = std::vector<T, UnsetAllocator<T>>;
template <typename T>
using LargeArray = std::vector<T, LargePageAllocator<T>>;

}  // namespace mtboost
