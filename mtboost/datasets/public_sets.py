# SPDX-License-Identifier: Apache-2.0
"""Public data sets of the literature on several tasks, read from the files of their publishers.

No checksum of the files is published, so each is checked by what is known of its contents: the
numbers of rows, columns and tasks and the sum of the labels. Addresses on GitHub name a commit, so
that the file behind them cannot change.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt
import scipy  # scipy.io is imported where it is used

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_choice
from mtboost.base.docstrings import shares_docstring_of
from mtboost.datasets.bunches import as_bunch, description_of
from mtboost.datasets.remote import PathLike, RemoteFile, fetch
from mtboost.errors import DataError

_GITHUB = "https://raw.githubusercontent.com"
SCHOOL = RemoteFile(
    "school.mat",
    f"{_GITHUB}/jiayuzhou/MALSAR/ca3d55b878cc4113f0d9603e8ac46538aeb1ecd9/data/school.mat",
)
LANDMINE = RemoteFile(
    "LandmineData.mat",
    f"{_GITHUB}/daizhongxiang/Federated_Bayesian_Optimization/"
    "9f46a1dfbbcfd5823e026ad9418a4cb881676ae9/LandmineData.mat",
)

_SCHOOL_COLUMNS = (
    *(f"year_{code}" for code in range(3)),
    *("pct_free_meals", "pct_vr_band1"),
    *(f"gender_{code}" for code in range(2)),
    *(f"vr_band_{code}" for code in range(3)),
    *(f"ethnic_{code}" for code in range(11)),
    *(f"school_gender_{code}" for code in range(3)),
    *(f"denomination_{code}" for code in range(3)),
)
_LANDMINE_COLUMNS = (
    *(f"moment_{number}" for number in range(1, 5)),
    *(f"correlation_{number}" for number in range(1, 4)),
    *("energy_ratio", "spatial_variance"),
)


@dataclass(frozen=True, slots=True)
class _Outputs:
    """A data set of Mulan whose last columns are the outputs."""

    file: RemoteFile
    n_rows: int
    n_features: int
    n_outputs: int
    about: str


_MULAN = {
    "atp1d": _Outputs(
        RemoteFile(
            "atp1d.arff",
            f"{_GITHUB}/tsoumakas/mulan/122fce8fbefdb292ba3acbb03867a7fc8f1dcaa9/"
            "data/multi-target/atp1d.arff",
        ),
        *(337, 411, 6),
        "Airline ticket prices: least price of the next day for six preferences of flights.",
    ),
    "wq": _Outputs(
        RemoteFile(
            "wq.arff",
            f"{_GITHUB}/tsoumakas/mulan/49efcccb0666c59f57d942c13c6184af028c7650/"
            "data/multi-target/wq.arff",
        ),
        *(1060, 16, 14),
        "Water quality of Slovenian rivers: abundance of seven plants and seven animals, coded "
        "0, 1, 3 and 5.",
    ),
}


def fetch_school(
    *,
    data_home: PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y_task: bool = False,
    as_frame: bool = False,
) -> Any:
    """Exam scores of 15 362 pupils in 139 schools of London, one task per school (regression).

    The data of the Inner London Education Authority as the toolbox MALSAR publishes them: a score
    from 1 to 70, and 27 columns, most of which are one-hot. The 28th column of the file, constant,
    is left out. The file does not name the categories: the numbers in the names are their order.

    Parameters
    ----------
    data_home : str or path-like, optional
        Folder of the file; see :func:`get_data_home`.
    download_if_missing : bool
        Whether to download the file if it is not in the folder.
    return_X_y_task : bool
        Return ``(data, target, task)`` instead of a Bunch.
    as_frame : bool
        Whether the data are a pandas DataFrame, the labels and the tasks Series.

    Returns
    -------
    sklearn.utils.Bunch, or tuple
        ``data`` (15362, 27), ``target``, ``task`` (0 to 138), ``feature_names``, ``DESCR``, and
        ``frame``: all in one table if `as_frame`, else None.

    Raises
    ------
    OSError
        The file is not there and cannot be downloaded; the message says where to save it.
    DataError
        The file is damaged, or another one.
    MissingDependencyError
        `as_frame` needs pandas.

    Examples
    --------
    >>> from mtboost.datasets import fetch_school
    >>> X, y, school = fetch_school(return_X_y_task=True)  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (15362, 27)

    References
    ----------
    simm2014, fig. 1; J. Zhou, J. Chen and J. Ye, *MALSAR: Multi-task learning via structural
    regularization*, 2012.
    """

    def parse(file: IO[bytes]) -> tuple[Float64Array, Float64Array, npt.NDArray[np.int64]]:
        X, y, task = _tasks_of_matlab(file, "X", "Y")
        _check_contents(X.shape, (15362, 28), len(np.unique(task)), 139, y.sum(), 316416)
        if not (X[:, -1] == 1.0).all():
            raise DataError("The last column is not constant.")
        return np.ascontiguousarray(X[:, :-1]), y, task

    X, y, task = fetch(SCHOOL, data_home, download_if_missing, parse)
    return as_bunch(
        X,
        {"score": y},
        task,
        _SCHOOL_COLUMNS,
        description_of(fetch_school, SCHOOL.url),
        task_name="school",
        as_frame=as_frame,
        return_X_y_task=return_X_y_task,
    )


@shares_docstring_of(fetch_school, sections=["Raises"])
def fetch_landmine(
    *,
    data_home: PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y_task: bool = False,
    as_frame: bool = False,
) -> Any:
    """Radar signatures of 14 820 objects in 29 fields, one task per field: 1 is a landmine (6 %).

    Nine features of each object: four moments, three correlations, an energy ratio and a spatial
    variance. The fields have two kinds of ground, fields 0 to 14 and 15 to 28.

    Returns
    -------
    sklearn.utils.Bunch, or tuple
        ``data`` (14820, 9), ``target`` (0 or 1), ``task`` (0 to 28), ``feature_names``,
        ``target_names``, ``DESCR``, and ``frame``: all in one table if `as_frame`, else None.

    Notes
    -----
    Duke University, where the data come from, published them on the page of L. Carin; the address
    used is that of a copy whose contents have not changed.

    Examples
    --------
    >>> from mtboost.datasets import fetch_landmine
    >>> fetch_landmine().target_names  # doctest: +SKIP
    ['clutter', 'landmine']

    References
    ----------
    simm2014, fig. 1; Y. Xue, X. Liao, L. Carin and B. Krishnapuram, *Multi-task learning for
    classification with Dirichlet process priors*, Journal of Machine Learning Research 8, 2007.
    """

    def parse(file: IO[bytes]) -> tuple[Float64Array, npt.NDArray[np.int64], Any]:
        X, y, task = _tasks_of_matlab(file, "feature", "label")
        _check_contents(X.shape, (14820, 9), len(np.unique(task)), 29, y.sum(), 904)
        return X, y.astype(np.int64), task

    X, y, task = fetch(LANDMINE, data_home, download_if_missing, parse)
    return as_bunch(
        X,
        {"is_landmine": y},
        task,
        _LANDMINE_COLUMNS,
        description_of(fetch_landmine, LANDMINE.url),
        task_name="field",
        target_names=("clutter", "landmine"),
        as_frame=as_frame,
        return_X_y_task=return_X_y_task,
    )


def fetch_mulan(
    name: Literal["atp1d", "wq"],
    *,
    data_home: PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Read a data set with several numeric outputs per row from the project Mulan.

    ========= ====== ========== ========= =====================================================
    name      rows   features   outputs   contents
    ========= ====== ========== ========= =====================================================
    "atp1d"   337    411        6         airline ticket prices of the next day
    "wq"      1060   16         14        abundance of plants and animals in rivers, 0, 1, 3, 5
    ========= ====== ========== ========= =====================================================

    Data sets of several labels are on OpenML: ``sklearn.datasets.fetch_openml`` reads, for example,
    ``("yeast", version=4)`` and ``("emotions", version=4)``.

    Parameters
    ----------
    name : {"atp1d", "wq"}
        Data set.
    data_home : str or path-like, optional
        Folder of the file; see :func:`get_data_home`.
    download_if_missing : bool
        Whether to download the file if it is not in the folder.
    return_X_y : bool
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool
        Whether data and outputs are pandas DataFrames.

    Returns
    -------
    sklearn.utils.Bunch, or tuple
        ``data`` (n_rows, n_features), ``target`` (n_rows, n_outputs), ``feature_names``,
        ``target_names``, ``DESCR``, and ``frame``: all in one table if `as_frame`, else None.

    Raises
    ------
    OSError
        The file is not there and cannot be downloaded; the message says where to save it.
    DataError
        The file is damaged, or another one.
    ParameterError
        `name` is none of the data sets.
    MissingDependencyError
        `as_frame` needs pandas.

    Examples
    --------
    >>> from mtboost.datasets import fetch_mulan
    >>> X, Y = fetch_mulan("wq", return_X_y=True)  # doctest: +SKIP
    >>> Y.shape  # doctest: +SKIP
    (1060, 14)

    References
    ----------
    joly2016, table 6.8; E. Spyromitros-Xioufis, G. Tsoumakas, W. Groves and I. Vlahavas,
    *Multi-target regression via input space expansion*, Machine Learning 104, 2016.
    """
    outputs = _MULAN[check_choice("name", name, _MULAN)]

    def parse(file: IO[bytes]) -> tuple[Float64Array, list[str]]:
        rows, about = scipy.io.arff.loadarff(io.TextIOWrapper(file, "utf-8"))
        names = about.names()
        table = np.column_stack([rows[column].astype(np.float64) for column in names])
        expected = (outputs.n_rows, outputs.n_features + outputs.n_outputs)
        if table.shape != expected:
            raise DataError(f"The table has the shape {table.shape} instead of {expected}.")
        return table, names

    table, names = fetch(outputs.file, data_home, download_if_missing, parse)
    n_features = outputs.n_features
    found = as_bunch(
        np.ascontiguousarray(table[:, :n_features]),
        dict(zip(names[n_features:], table[:, n_features:].T, strict=True)),
        None,
        names[:n_features],
        f"{outputs.about}\n\nPublished at {outputs.file.url}\n",
        target_names=names[n_features:],
        as_frame=as_frame,
    )
    return (found.data, found.target) if return_X_y else found


def _tasks_of_matlab(
    file: IO[bytes], features: str, labels: str
) -> tuple[Float64Array, Float64Array, npt.NDArray[np.int64]]:
    """Rows of all tasks, from two cell arrays with a table and a column of labels per task."""
    contents = scipy.io.loadmat(file, variable_names=(features, labels))
    if missing := [name for name in (features, labels) if name not in contents]:
        raise DataError(f"The file has no variable {missing[0]!r}.")
    tables = [np.asarray(table, np.float64) for table in contents[features].ravel()]
    columns = [np.asarray(column, np.float64).ravel() for column in contents[labels].ravel()]
    if [len(table) for table in tables] != [len(column) for column in columns]:
        raise DataError(f"{features} and {labels} have different numbers of rows.")
    task = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    return np.concatenate(tables), np.concatenate(columns), task


def _check_contents(
    shape: tuple[int, ...],
    expected_shape: tuple[int, int],
    n_tasks: int,
    expected_tasks: int,
    sum_labels: float,
    expected_sum: int,
) -> None:
    """Compare what the file contains with what is known of the data set."""
    found = {"shape": shape, "number of tasks": n_tasks, "sum of the labels": sum_labels}
    expected = (expected_shape, expected_tasks, expected_sum)
    for (what, value), right in zip(found.items(), expected, strict=True):
        if value != right:
            raise DataError(f"The {what} is {value} instead of {right}: this is another data set.")
