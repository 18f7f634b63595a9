# SPDX-License-Identifier: Apache-2.0
"""Types of columns, as pandas, polars and pyarrow spell them: which ones trees can split."""

import re
from functools import lru_cache
from typing import Any, Literal

import numpy as np

# Column types XGBoost reads, as pandas (plain, nullable, arrow), polars and pyarrow spell them.
_NUMBER = r"(bool|[Bb]oolean|float|double|float16|[Ff]loat(32|64)|(u?i|U?I)nt(8|16|32|64))"
_NUMERIC = re.compile(rf"{_NUMBER}(\[pyarrow\])?")
#: Types of polars and pyarrow that NumPy has, too.
PLAIN_NUMBER = re.compile(
    r"(?P<is_float>float|double|Float(32|64))|bool|Boolean|(u?i|U?I)nt(8|16|32|64)"
)
_CATEGORICAL = (
    "category",
    "Categorical",
    "Enum",
    "dictionary<values=string",
    "dictionary<values=large_string",
)

_DURATIONS = ("timedelta", "duration", "Duration")
_DECIMALS = ("decimal", "Decimal")
_DATES = ("datetime", "Datetime", "Date", "timestamp", "date", "period")


def is_categorical(dtype: Any) -> bool:
    """Whether a column of this type holds categories."""
    return not isinstance(dtype, np.dtype) and str(dtype).startswith(_CATEGORICAL)


def is_sparse(dtype: Any) -> bool:
    """Whether a column of pandas stores only values that differ from a fill value."""
    return not isinstance(dtype, np.dtype) and str(dtype).startswith("Sparse")


def is_long_float(dtype: np.dtype[Any]) -> bool:
    """Whether an array of this type holds floats above 8 bytes, which XGBoost misreads."""
    return dtype.kind == "f" and dtype.itemsize > 8


@lru_cache(maxsize=64)
def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether XGBoost reads arrays of this type; kept, as names of types take long to make."""
    return _NUMERIC.fullmatch(str(dtype)) is not None


def is_usable(dtype: Any) -> bool:
    """Whether XGBoost reads a column of this type, once its codes are fixed."""
    if isinstance(dtype, np.dtype):
        return is_number(dtype)
    name = str(dtype)
    if name == "category":  # pandas alone lets anything be a category
        return len(dtype.categories) == 0 or dtype.categories.inferred_type in ("integer", "string")
    if is_categorical(dtype):
        return not name.endswith("[pyarrow]")  # read in an arrow table, not in pandas
    return _NUMERIC.fullmatch(name) is not None


def kind_to_convert(dtype: Any) -> Literal["numbers", "categories"] | None:
    """What a column of this type holds, if its values have to be given another type; else None."""
    if isinstance(dtype, np.dtype):
        return "numbers" if is_long_float(dtype) else None
    name = str(dtype).removesuffix("[pyarrow]")
    if name in ("null", "Null", "halffloat", "Float16") or name.startswith(_DECIMALS):
        return "numbers"
    return "categories" if str(dtype).startswith("dictionary") and name != str(dtype) else None


def may_be_text(dtype: Any) -> bool:
    """Whether a column of this type can hold texts, which become categories."""
    if isinstance(dtype, np.dtype) and is_number(dtype):
        return False
    return str(dtype).startswith(("object", "str", "String", "large_string", "Utf8"))


def is_own_type_of_pandas(categories: Any) -> bool:
    """Whether labels of categories have a type of pandas that not every XGBoost reads."""
    if categories.inferred_type == "integer":
        return not (isinstance(categories.dtype, np.dtype) and categories.dtype.kind in "iu")
    return str(categories.dtype).startswith("string")  # str is the usual one of pandas 3


def is_date(dtype: Any, kind: str = "") -> bool:
    """Whether a column of this type, or of objects that pandas infers to be `kind`, has dates."""
    return (kind or str(dtype)).startswith(_DATES)


def unusable_column(
    argument: str, column: str, dtype: Any, kind: str = "", *, has_time: bool
) -> str:
    """Return the message that refuses a column that is not :func:`is_usable`.

    `kind` is what pandas infers of the values of a column of objects; `has_time` is whether the
    caller has an argument ``time``.
    """
    if str(dtype) == "category":
        found = f"{dtype.categories.inferred_type} categories"
        remedy = "categories are to be str or int; convert them to str"
    elif (kind or str(dtype)).startswith(_DURATIONS):
        found = f"durations (dtype {dtype})"
        convert = ".dt.total_seconds()"
        if kind:
            convert = "pandas.to_timedelta(column).dt.total_seconds()"
        elif type(dtype).__module__.startswith("pyarrow"):
            convert = ".cast('int64'), in the unit of its type"
        remedy = f"make numbers of them by {convert}, or drop it"
    elif is_date(dtype, kind):
        found = f"dates (dtype {dtype})"
        drop = f"drop it, or pass time={column!r} to hold out the last rows"
        remedy = (
            f"make numbers of them that mean something, such as the day of the week or the days "
            f"since an event, {drop if has_time else 'or drop it'}"
        )
    else:
        found = f"dtype {dtype}"
        remedy = (
            f"make it numbers or categories (pandas category, polars Categorical or Enum, arrow "
            f"dictionary of strings), drop it, or pass task={column!r} if it names the task"
        )
    return f"{argument} has a column {column!r} of {found}: {remedy}."
