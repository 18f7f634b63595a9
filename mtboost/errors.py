# SPDX-License-Identifier: Apache-2.0
"""Every exception and warning mtboost raises.

A message says what is wrong, where, and how to mend it.
"""


class MtboostError(Exception):
    """Base of all errors raised by mtboost."""


class DataError(MtboostError, ValueError):
    """Data that cannot be used: shape, labels, tasks, columns."""


class ParameterError(MtboostError, ValueError):
    """A parameter has an unknown name or a value outside its range."""


class ParameterTypeError(ParameterError, TypeError):
    """A parameter has a value of a type that it cannot have."""


class ModelFormatError(MtboostError, ValueError):
    """A model file or booster that mtboost cannot read or write."""


class MissingDependencyError(MtboostError, ImportError):
    """An optional package is needed; the message gives the pip line."""


class TrainingError(MtboostError, RuntimeError):
    """Training cannot go on, for example because of non-finite gradients."""


class UnsupportedError(MtboostError, NotImplementedError):
    """A stock library's option that cannot be combined with mtboost's trees."""
