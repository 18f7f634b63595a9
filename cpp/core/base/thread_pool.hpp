// SPDX-License-Identifier: Apache-2.0
// Threads of one training run. std::thread, not OpenMP: xgboost and LightGBM each bring a libgomp pool that spins, and
// a child process made by fork() after OpenMP ran hangs. Workers here sleep between calls and die with the pool.
// Always holds: a body sees each block index exactly once, and results must not depend on which thread runs a block.
// They do not depend on the number of threads either: where the system refuses to start one, the pool has fewer.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace mtboost {

// Work of fewer steps is finished sooner by one thread: waking others takes about as long. A step is an addition or a
// look-up, about a nanosecond.
inline constexpr std::size_t kFewSteps = 200'000;

// Number of threads worth starting if no call has more steps.
inline int threads_for(std::size_t n_steps, int n_threads) noexcept {
  return n_steps < kFewSteps ? std::min(n_threads, 1) : n_threads;
}

class ThreadPool {
 public:
  // Starts a thread that calls `work`, or throws what std::thread throws.
  using StartThread = std::function<std::thread(std::function<void()> work)>;

  // n_threads: at most, the calling thread included. start: another one is for tests of a system that refuses.
  explicit ThreadPool(int n_threads, const StartThread& start = start_thread);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Those there are.
  int n_threads() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  // Runs body(block) for block in [0, n_blocks); the calling thread works too. Blocks are handed out one by one in
  // ascending order, so uneven blocks balance. The first exception a body throws comes back here. Not reentrant.
  void parallel_for(std::size_t n_blocks, const std::function<void(std::size_t)>& body) {
    parallel_for(n_blocks, kFewSteps, body);
  }
  // n_steps: of all blocks together. If they are few, the calling thread takes them alone.
  void parallel_for(std::size_t n_blocks, std::size_t n_steps, const std::function<void(std::size_t)>& body);

 private:
  static std::thread start_thread(std::function<void()> work) { return std::thread(std::move(work)); }

  void work();
  void take_blocks();

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(std::size_t)>* body_ = nullptr;
  std::size_t n_blocks_ = 0;
  std::atomic<std::size_t> next_block_{0};
  std::size_t n_busy_ = 0;
  std::size_t call_ = 0;
  std::exception_ptr first_exception_;
  bool stopping_ = false;
};

}  // namespace mtboost
