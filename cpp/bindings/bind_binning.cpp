// SPDX-License-Identifier: Apache-2.0
#include "arrays.hpp"
#include "bindings.hpp"
#include "binning/binned_matrix.hpp"

namespace mtboost {
namespace {

BinnedMatrixBuilder make_builder(const Contiguous<std::uint32_t>& offsets, const Contiguous<float>& values,
                                 const Contiguous<float>& min_values, const Contiguous<std::uint8_t>& is_categorical,
                                 row_t n_rows, const Contiguous<std::uint8_t>& may_be_missing,
                                 const Contiguous<row_t>& storage_order, bool is_sparse) {
  return BinnedMatrixBuilder(Cuts(as_vector(offsets, "offsets"), as_vector(values, "values"),
                                  as_vector(min_values, "min_values"), as_vector(is_categorical, "is_categorical")),
                             n_rows, as_vector(may_be_missing, "may_be_missing"),
                             as_vector(storage_order, "storage_order"), is_sparse);
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
      .def_property_readonly("is_dense", &BinnedMatrix::is_dense)
      .def_property_readonly("is_sparse", &BinnedMatrix::is_sparse)
      .def_property_readonly("n_bytes", &BinnedMatrix::n_bytes);

  py::class_<BinnedMatrixBuilder>(module, "BinnedMatrixBuilder", "Fills a BinnedMatrix block by block.")
      .def(py::init(&make_builder), py::kw_only(), py::arg("offsets").noconvert(), py::arg("values").noconvert(),
           py::arg("min_values").noconvert(), py::arg("is_categorical").noconvert(), py::arg("n_rows"),
           py::arg("may_be_missing").noconvert(), py::arg("storage_order").noconvert(),
           py::arg("is_sparse") = false)
      .def("add", &add_dense<float>, py::arg("block").noconvert(), py::kw_only(), py::arg("n_threads"))
      .def("add", &add_dense<double>, py::arg("block").noconvert(), py::kw_only(), py::arg("n_threads"))
      .def("add_csr", &add_csr, py::arg("indptr").noconvert(), py::arg("indices").noconvert(),
           py::arg("values").noconvert(), py::kw_only(), py::arg("n_threads"))
      .def("build", [](BinnedMatrixBuilder& builder) {
        return std::make_shared<BinnedMatrix>(std::move(builder).build());
      });

  module.def("columns_with_missing", &missing_columns<float>, py::arg("table").noconvert(), py::kw_only(), py::arg("n_threads"));
  module.def("columns_with_missing", &missing_columns<double>, py::arg("table").noconvert(), py::kw_only(), py::arg("n_threads"));
}

}  // namespace mtboost
