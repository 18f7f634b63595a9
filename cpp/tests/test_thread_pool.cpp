// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <new>
#include <numeric>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread_pool.hpp"
#include "check.hpp"

namespace mtboost::test::test_thread_pool {

TEST(each_block_runs_exactly_once) {
  for (int n_threads = 1; n_threads <= 8; ++n_threads) {
    ThreadPool pool(n_threads);
    check(pool.n_threads() == n_threads);
    for (const std::size_t n_blocks : {0, 1, 2, 7, 1000}) {
      std::vector<int> n_runs(n_blocks, 0);  // not atomic: the thread sanitizer sees a block that two threads run
      pool.parallel_for(n_blocks, [&](std::size_t block) { ++n_runs[block]; });
      check(n_runs == std::vector<int>(n_blocks, 1));
    }
  }
}

TEST(few_steps_are_taken_by_the_calling_thread) {
  ThreadPool pool(4);
  std::vector<std::thread::id> threads(100);
  for (int call = 0; call < 20; ++call) {
    pool.parallel_for(threads.size(), kFewSteps - 1,
                      [&](std::size_t block) { threads[block] = std::this_thread::get_id(); });
    check(threads == std::vector(threads.size(), std::this_thread::get_id()));
  }
  check(threads_for(kFewSteps - 1, 4) == 1 && threads_for(kFewSteps, 4) == 4 && threads_for(1, 0) == 0);
}

TEST(results_of_one_call_are_seen_by_the_next) {
  constexpr std::size_t kBlocks = 16;
  for (int n_threads = 1; n_threads <= 8; ++n_threads) {
    ThreadPool pool(n_threads);
    std::vector<std::size_t> values(kBlocks, 0);
    for (std::size_t call = 0; call < 500; ++call)  // each block reads its neighbour of the call before
      pool.parallel_for(kBlocks,
                        [&, before = values](std::size_t block) { values[block] = before[(block + 1) % kBlocks] + 1; });
    check(values == std::vector<std::size_t>(kBlocks, 500));
  }
}

TEST(pools_come_and_go_without_work) {
  for (int n_threads = 1; n_threads <= 8; ++n_threads)
    for (int i = 0; i < 20; ++i) ThreadPool pool(n_threads);
}

TEST(an_exception_comes_home_and_the_pool_works_on) {
  for (int n_threads = 1; n_threads <= 8; ++n_threads) {
    ThreadPool pool(n_threads);
    for (int call = 0; call < 50; ++call) {
      check_throws<std::runtime_error>("block 3", [&] {
        pool.parallel_for(100, [](std::size_t block) {
          if (block == 3) throw std::runtime_error("block 3");
        });
      });
      std::vector<int> n_runs(100, 0);
      pool.parallel_for(100, [&](std::size_t block) { ++n_runs[block]; });
      check(std::accumulate(n_runs.begin(), n_runs.end(), 0) == 100);
    }
  }
}

TEST(one_of_many_exceptions_comes_home) {
  ThreadPool pool(4);
  check_throws<std::runtime_error>(
      "all", [&] { pool.parallel_for(100, [](std::size_t) { throw std::runtime_error("all"); }); });
}

namespace {

// Starts n threads and fails for every further one, as the system does at its limits.
template <typename Failure>
ThreadPool::StartThread at_most(int n, Failure failure) {
  return [n, failure](std::function<void()> work) mutable {
    if (n-- <= 0) throw failure;
    return std::thread(std::move(work));
  };
}

void check_fewer_threads(const auto& failure) {
  for (int n_threads = 1; n_threads <= 6; ++n_threads)
    for (int n_started = 0; n_started < n_threads; ++n_started) {
      {
        ThreadPool unused(n_threads, at_most(n_started, failure));
      }
      ThreadPool pool(n_threads, at_most(n_started, failure));
      check(pool.n_threads() == n_started + 1);
      std::vector<int> n_runs(100, 0);
      for (int call = 0; call < 10; ++call)
        pool.parallel_for(n_runs.size(), [&](std::size_t block) { ++n_runs[block]; });
      check(n_runs == std::vector<int>(n_runs.size(), 10));
      check_throws<std::runtime_error>("block 3", [&] {
        pool.parallel_for(100, [](std::size_t block) {
          if (block == 3) throw std::runtime_error("block 3");
        });
      });
    }
}

}  // namespace

TEST(a_pool_has_the_threads_that_could_be_started) {
  check_fewer_threads(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  check_fewer_threads(std::bad_alloc());
}

TEST(a_pool_does_not_start_a_billion_threads) {
  int n_started = 0;
  const ThreadPool pool(1'000'000'000, [&](const std::function<void()>&) {
    ++n_started;
    return std::thread([] {});
  });
  check(n_started == 1023);
}

TEST(a_pool_needs_a_thread) {
  check_throws<std::invalid_argument>("n_threads must be at least 1, found 0", [] { ThreadPool pool(0); });
}

}  // namespace mtboost::test::test_thread_pool
