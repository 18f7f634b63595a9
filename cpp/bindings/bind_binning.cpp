// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "binning/binned_matrix.hpp"

namespace mtboost {
namespace {

BinnedMatrixBuilder make_builder(const Contiguous<std::uint32_t>& offsets, const Contiguous<float>& values,
                                 const Contiguous<float>& min_values, const Contiguous<std::uint8_t>& is_categorical,
                                 row_t n_rows, const Contiguous<std::uint8_t>& may_be_missing,
                                 const Contiguous<row_t>& storage_order, bool is_sparse, bool outer_bins) {
  return BinnedMatrixBuilder(BinEdges(as_vector(offsets, "offsets"), as_vector(values, "values"),
                                      as_vector(min_values, "min_values"), as_vector(is_categorical, "is_categorical")),
                             n_rows, as_vector(may_be_missing, "may_be_missing"),
                             as_vector(storage_order, "storage_order"), is_sparse, outer_bins);
}

BinEdges lightgbm_edges(const Contiguous<bin_t>& n_bins, const Contiguous<bin_t>& missing_bins,
                        const Contiguous<bin_t>& frequent_bins, const Contiguous<std::uint8_t>& missing_types,
                        const Contiguous<std::uint8_t>& is_categorical) {
  const auto bins = as_span(n_bins, "n_bins");
  const auto missing_bin = as_span(missing_bins, "missing_bins"), frequent = as_span(frequent_bins, "frequent_bins");
  const auto missing = as_span(missing_types, "missing_types"), categorical = as_span(is_categorical, "is_categorical");
  require(missing_bin.size() == bins.size() && frequent.size() == bins.size() && missing.size() == bins.size() &&
              categorical.size() == bins.size(),
          "n_bins, missing_bins, frequent_bins, missing_types and is_categorical need one entry per feature");
  std::vector<LightgbmBins> features;
  for (std::size_t feature = 0; feature < bins.size(); ++feature) {
    require(missing[feature] <= static_cast<std::uint8_t>(LightgbmBins::Missing::nan), "a missing type is unknown");
    features.push_back({bins[feature], missing_bin[feature], frequent[feature],
                        static_cast<LightgbmBins::Missing>(missing[feature]), categorical[feature] != 0});
  }
  return BinEdges(std::move(features));
}

// A BinnedMatrix of LightGBM's bins, from its columns.
std::shared_ptr<BinnedMatrix> lightgbm_matrix(
    const Contiguous<bin_t>& n_bins, const Contiguous<bin_t>& missing_bins, const Contiguous<bin_t>& frequent_bins,
    const Contiguous<std::uint8_t>& missing_types, const Contiguous<std::uint8_t>& is_categorical,
    const std::vector<Contiguous<std::uint8_t>>& columns, const std::vector<int>& bits,
    const std::vector<std::optional<Contiguous<std::uint8_t>>>& steps,
    const std::vector<std::size_t>& column_of_feature, const std::vector<std::uint32_t>& first_entries, row_t n_rows,
    const Contiguous<row_t>& storage_order, bool is_sparse, int n_threads) {
  BinEdges edges = lightgbm_edges(n_bins, missing_bins, frequent_bins, missing_types, is_categorical);
  require(bits.size() == columns.size() && steps.size() == columns.size() &&
              column_of_feature.size() == edges.n_features() && first_entries.size() == edges.n_features(),
          "bits and steps need one entry per column; column_of_feature and first_entries one per feature");
  std::vector<StoredColumn> stored;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    stored.push_back({as_span(columns[i], "columns"), bits[i], std::nullopt});
    if (steps[i]) stored.back().steps = as_span(*steps[i], "steps");
  }
  std::vector<StoredFeature> features;
  std::vector<std::uint8_t> may_be_missing;
  for (feature_t feature = 0; feature < edges.n_features(); ++feature) {
    features.push_back({column_of_feature[feature], first_entries[feature]});
    may_be_missing.push_back(edges.lightgbm(feature).missing_bin < edges.lightgbm(feature).n_bins);
  }
  const StoredColumns entries(edges, n_rows, std::move(stored), std::move(features));
  BinnedMatrixBuilder builder(std::move(edges), n_rows, std::move(may_be_missing),
                              as_vector(storage_order, "storage_order"), is_sparse);
  py::gil_scoped_release release;
  builder.add(entries, n_threads);
  return std::make_shared<BinnedMatrix>(std::move(builder).build());
}

template <typename T>
void add_dense(BinnedMatrixBuilder& builder, const py::array_t<T>& block, int n_threads) {
  const auto view = as_matrix(block, "block");
  py::gil_scoped_release release;
  builder.add(view, n_threads);
}

void add_csr(BinnedMatrixBuilder& builder, const Contiguous<std::int64_t>& indptr,
             const Contiguous<std::int32_t>& indices, const Contiguous<float>& values, int n_threads) {
  const CsrView<std::int64_t, std::int32_t> view{as_span(indptr, "indptr"), as_span(indices, "indices"),
                                                 as_span(values, "values")};
  require(!view.indptr.empty() && view.indptr.front() == 0 &&
              view.indptr.back() == static_cast<std::int64_t>(view.indices.size()) &&
              view.indices.size() == view.values.size(),
          "indptr, indices and values do not describe one matrix");
  for (std::size_t row = 0; row + 1 < view.indptr.size(); ++row)
    require(view.indptr[row] <= view.indptr[row + 1], "indptr must not decrease");
  py::gil_scoped_release release;
  builder.add(view, n_threads);
}

void add_codes(BinnedMatrixBuilder& builder, const py::array_t<float>& codes, const Contiguous<feature_t>& n_features,
               int n_threads) {
  const auto view = as_matrix(codes, "codes");
  const auto counts = as_span(n_features, "n_features");
  py::gil_scoped_release release;
  builder.add_codes(view, counts, n_threads);
}

template <typename T>
py::array_t<std::uint8_t> missing_columns(const py::array_t<T>& table, int n_threads) {
  const auto view = as_matrix(table, "table");
  std::vector<std::uint8_t> flags;
  {
    py::gil_scoped_release release;
    flags = columns_with_missing(view, n_threads);
  }
  return to_array(std::move(flags));
}

}  // namespace

void bind_binning(py::module_& module) {
  py::class_<BinnedMatrix, std::shared_ptr<BinnedMatrix>>(module, "BinnedMatrix", "Table of bin numbers.")
      .def_property_readonly("n_rows", &BinnedMatrix::n_rows)
      .def_property_readonly("n_features", &BinnedMatrix::n_features)
      .def_property_readonly("is_sparse", &BinnedMatrix::is_sparse);

  py::class_<BinnedMatrixBuilder>(module, "BinnedMatrixBuilder", "Fills a BinnedMatrix block by block.")
      .def(py::init(&make_builder), py::kw_only(), py::arg("offsets").noconvert(), py::arg("values").noconvert(),
           py::arg("min_values").noconvert(), py::arg("is_categorical").noconvert(), py::arg("n_rows"),
           py::arg("may_be_missing").noconvert(), py::arg("storage_order").noconvert(), py::arg("is_sparse") = false,
           py::arg("outer_bins") = false)
      .def("add", &add_dense<float>, py::arg("block").noconvert(), py::kw_only(), py::arg("n_threads"))
      .def("add", &add_dense<double>, py::arg("block").noconvert(), py::kw_only(), py::arg("n_threads"))
      .def("add_csr", &add_csr, py::arg("indptr").noconvert(), py::arg("indices").noconvert(),
           py::arg("values").noconvert(), py::kw_only(), py::arg("n_threads"))
      .def("add_codes", &add_codes, py::arg("codes").noconvert(), py::arg("n_features").noconvert(), py::kw_only(),
           py::arg("n_threads"))
      .def("build",
           [](BinnedMatrixBuilder& builder) { return std::make_shared<BinnedMatrix>(std::move(builder).build()); });

  module.def("lightgbm_matrix", &lightgbm_matrix, py::kw_only(), py::arg("n_bins").noconvert(),
             py::arg("missing_bins").noconvert(), py::arg("frequent_bins").noconvert(),
             py::arg("missing_types").noconvert(), py::arg("is_categorical").noconvert(), py::arg("columns"),
             py::arg("bits"), py::arg("steps"), py::arg("column_of_feature"), py::arg("first_entries"),
             py::arg("n_rows"), py::arg("storage_order").noconvert(), py::arg("is_sparse"), py::arg("n_threads"));

  module.def("columns_with_missing", &missing_columns<float>, py::arg("table").noconvert(), py::kw_only(),
             py::arg("n_threads"));
  module.def("columns_with_missing", &missing_columns<double>, py::arg("table").noconvert(), py::kw_only(),
             py::arg("n_threads"));
}

}  // namespace mtboost
