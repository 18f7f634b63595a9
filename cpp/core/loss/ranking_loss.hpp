// SPDX-License-Identifier: Apache-2.0
// Losses of groups of rows (queries) whose order counts, by LambdaRank (burges2010): a row's gradient depends on the
// other rows of its group, and a pair of rows counts by how much the ranking metric changes if the two are swapped.
// A derived class computes the pairs of one group; groups are independent of each other, so that the number of threads
// changes nothing. Naive twin: tests/oracle/test_ranking_losses.py.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "loss/loss.hpp"

namespace mtboost {

template <typename Margin>
class RankingLoss : public Loss<Margin> {
 public:
  explicit RankingLoss(std::string name) : Loss<Margin>(std::move(name), 1, 1) {}

  bool needs_groups() const noexcept final { return true; }

 protected:
  // What the kernel of one group reads beside its rows, and memory it may write to.
  struct Workspace {
    std::span<const double> discounts;  // 1 / log2(2 + position)
    double weight_factor;
    std::span<std::uint32_t> order;  // SCRATCH: as many as the group has rows
  };

  // Positions of the values from the largest to the smallest; equal ones in the order of the rows.
  template <typename T>
  static void sort_descending(std::span<const T> values, std::span<std::uint32_t> order /* OUT */) noexcept;

 private:
  // A factor on the weights of all groups.
  virtual double weight_factor(const LossRows<Margin>&) const { return 1.0; }
  virtual void gradients_of_group(const LossRows<Margin>& group, const Workspace& workspace,
                                  std::span<GradientPair> pairs /* OUT */) const noexcept = 0;
  void gradients_of_block(const LossRows<Margin>&, std::span<const Margin>, std::size_t, std::size_t,
                          GradientPair*) const noexcept final {}
  bool compute(const LossRows<Margin>& rows, ThreadPool& pool, std::span<GradientPair> pairs /* OUT */) const final;
};

extern template class RankingLoss<float>;
extern template class RankingLoss<double>;
extern template void RankingLoss<float>::sort_descending(std::span<const float>, std::span<std::uint32_t>) noexcept;
extern template void RankingLoss<double>::sort_descending(std::span<const float>, std::span<std::uint32_t>) noexcept;
extern template void RankingLoss<double>::sort_descending(std::span<const double>, std::span<std::uint32_t>) noexcept;

}  // namespace mtboost
