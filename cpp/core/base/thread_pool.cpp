// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.hpp"

#include <algorithm>
#include <exception>

#include "base/require.hpp"

namespace mtboost {
namespace {

// Beyond the cores of any machine further threads only use up what the system can start.
constexpr int kMostThreads = 1024;

}  // namespace

// The constructor must not throw once a worker runs: nobody would join it. Memory is reserved first, and a thread that
// cannot be started (a limit on processes, too little address space for its stack) ends the attempt.
ThreadPool::ThreadPool(int n_threads, const StartThread& start) {
  require(n_threads >= 1, "n_threads must be at least 1, found " + std::to_string(n_threads));
  const int n_workers = std::min(n_threads, kMostThreads) - 1;
  workers_.reserve(static_cast<std::size_t>(n_workers));
  try {
    for (int i = 0; i < n_workers; ++i) workers_.push_back(start([this] { work(); }));
  } catch (const std::exception&) {  // std::system_error, std::bad_alloc
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::parallel_for(std::size_t n_blocks, std::size_t n_steps, const std::function<void(std::size_t)>& body) {
  if (n_blocks <= 1 || n_steps < kFewSteps || workers_.empty()) {
    for (std::size_t block = 0; block < n_blocks; ++block) body(block);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    body_ = &body;
    n_blocks_ = n_blocks;
    next_block_.store(0, std::memory_order_relaxed);
    n_busy_ = workers_.size();
    first_exception_ = nullptr;
    ++call_;
  }
  wake_.notify_all();
  take_blocks();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return n_busy_ == 0; });
  body_ = nullptr;
  if (first_exception_) std::rethrow_exception(first_exception_);
}

void ThreadPool::work() {
  std::size_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || call_ != seen; });
      if (stopping_) return;
      seen = call_;
    }
    take_blocks();
    {
      std::lock_guard lock(mutex_);
      if (--n_busy_ > 0) continue;
    }
    done_.notify_one();
  }
}

void ThreadPool::take_blocks() {
  for (;;) {
    const std::size_t block = next_block_.fetch_add(1, std::memory_order_relaxed);
    if (block >= n_blocks_) return;
    try {
      (*body_)(block);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!first_exception_) first_exception_ = std::current_exception();
      next_block_.store(n_blocks_, std::memory_order_relaxed);
    }
  }
}

}  // namespace mtboost
