# SPDX-License-Identifier: Apache-2.0
"""``fit(init_model=...)``: training that goes on from a fitted model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mtboost.base.archive import read_model
from mtboost.base.checks import listed
from mtboost.errors import ParameterError
from mtboost.model.inputs.arguments import Arguments
from mtboost.model.inputs.checked_rows import check_takes_new_rows
from mtboost.model.model import MultiTaskModel

_ROUNDS = 100
#: Arguments of fit that go on to update.
_OF_UPDATE = ("task", "weight", "base_margin", "params", "eval_set", "n_threads", "seed")
#: Those that are compared with the model, or have another meaning.
_READ = ("init_model", "X", "y", "objective", "backend", "early_stopping_rounds", "pooling")
_COUNTS = ("num_boost_round", "validation_fraction")


def continued(arguments: Arguments, defaults: Mapping[str, Any]) -> MultiTaskModel:
    """Train more rounds, with the arguments of :func:`mtboost.fit`, whose defaults are given.

    Raises
    ------
    ParameterError
        An argument differs from its default, or from the model, and more rounds cannot have it.
    UnsupportedError
        The model ranks rows.
    """
    model = _as_model(arguments.init_model)
    check_takes_new_rows(model.objective, "init_model")
    early_stopping_rounds = arguments.early_stopping_rounds
    taken = (*_OF_UPDATE, *_READ, *_COUNTS)
    others = [
        name
        for name, default in defaults.items()
        if name not in taken and not _is_same(getattr(arguments, name), default)
    ]
    if early_stopping_rounds not in (None, defaults["early_stopping_rounds"]):
        others.append("early_stopping_rounds")
    if others:
        raise ParameterError(
            f"{listed(others, 'argument')} cannot be combined with init_model, whose new rounds "
            "have the settings of the model and those in params: leave "
            f"{'it' if len(others) == 1 else 'them'} out, or train a new model without init_model."
        )
    backend, objective = arguments.backend, arguments.objective
    if backend != model.backend:
        raise ParameterError(
            f"init_model is a model of {model.backend}, but backend is {backend!r}: pass "
            f"backend={model.backend!r}."
        )
    if not (objective is None or callable(objective) or objective == model.objective):
        raise ParameterError(
            f"init_model has objective {model.objective!r}, but objective is {objective!r}: leave "
            "it out, or train a new model without init_model."
        )
    if callable(objective):
        raise ParameterError(
            "objective is a function, but new rounds have the loss of the model, "
            f"{model.objective!r}: leave it out."
        )
    rounds: int | None = arguments.num_boost_round
    fraction: Any = arguments.validation_fraction
    if early_stopping_rounds is None:
        fraction = 0.0
    own: dict[str, Any] = {} if isinstance(fraction, str) else {"validation_fraction": fraction}
    own |= {name: getattr(arguments, name) for name in _OF_UPDATE}
    return model.update(
        arguments.X,
        arguments.y,
        rounds=_ROUNDS if rounds is None else rounds,
        pooling="auto" if arguments.pooling is None else arguments.pooling,
        **own,
    )


def _is_same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def _as_model(init_model: Any) -> MultiTaskModel:
    if isinstance(init_model, str | bytes | os.PathLike):
        return read_model(init_model, _from_file)
    if not isinstance(init_model, MultiTaskModel):
        hint = (
            " Pass its model_."
            if isinstance(getattr(init_model, "model_", None), MultiTaskModel)
            else ""
        )
        raise TypeError(
            f"init_model is a {type(init_model).__name__}: it must be a MultiTaskModel, or the "
            f"path of a file that its save() wrote.{hint}"
        )
    return init_model


def _from_file(metadata: dict[str, Any], members: Mapping[str, bytes]) -> MultiTaskModel:
    if "estimator" in metadata:
        raise ParameterError(
            f"it is the file of a {metadata['estimator']}: pass mtboost.load_model(path).model_"
        )
    return MultiTaskModel._from_file(metadata, members)
