# SPDX-License-Identifier: Apache-2.0
"""Settings that are behind in the first folds are not trained in the others."""

from typing import NamedTuple

import numpy as np
import pytest
from shared_tasks import OPTIONS, UNRELATED, limit, tasks_of

import mtboost
from mtboost.model.sharing import planning, search
from mtboost.model.sharing.common_by_fold import CommonByFold


class Tried(NamedTuple):
    best: CommonByFold | None  # before it
    common: CommonByFold
    folds: int  # that there are


@pytest.fixture
def tried(monkeypatch):
    """The models of each setting, in the order of the search."""
    found, fit = [], search.fit_common_by_fold

    def watched(settings, folds, least=None, shared=None, is_beaten=None):
        if least is None:  # the chosen model, in smaller steps
            return fit(settings, folds, shared=shared)
        best = None if is_beaten is None else is_beaten.__self__.common
        found.append(Tried(best, fit(settings, folds, least, shared, is_beaten), len(folds.pairs)))
        return found[-1].common

    monkeypatch.setattr(search, "fit_common_by_fold", watched)
    return found


def fitted(library, **options):
    X, y, task = tasks_of(UNRELATED, n_each=50)
    options = {**OPTIONS, **options, "validation_fraction": "auto"}  # rows are held out in turn
    return mtboost.fit(X, y, task=task, backend=library.name, n_threads=1, **options)


def squared_errors(common, n_folds, *, best_of_fold=False):
    """Of the validation rows of the first folds."""
    found = []
    for model, (_, valid) in list(zip(common.models, common.folds.pairs, strict=True))[:n_folds]:
        if best_of_fold:
            predictions = model.together.best_predictions
        else:
            rows = model.trees.codes_of(valid.tasks.names)[valid.tasks.codes]
            rounds = np.full(valid.n_rows, max(model.quit_round.values()))
            predictions = model.trees.margins(valid.common, rows, rounds, valid.base_margin)[:, 0]
        found.append((predictions - valid.labels()) ** 2)
    return np.concatenate(found)


def is_behind(common, best, n_folds):
    """By more than one standard error of the mean difference of these folds."""
    loss = squared_errors(common, n_folds, best_of_fold=True) - squared_errors(best, n_folds)
    return loss.mean() > loss.std() / np.sqrt(len(loss))


def test_settings_behind_in_the_first_folds_are_left(library, tried):
    model = fitted(library)
    left = [each for each in tried if len(each.common.models) < each.folds]
    assert left
    for best, common, n_folds in tried:
        n_trained = len(common.models)
        if best is None:
            assert n_trained == n_folds
            continue
        looks = range(2, min(n_trained + 1, n_folds))
        behind = [is_behind(common, best, n) for n in looks]
        assert behind == [n == n_trained for n in looks]
    losses = list(model.common_losses.values())
    # Linear effects come last, and are not listed unless they are ahead.
    for (best, common, _), loss in zip(tried, losses, strict=False):
        n_trained = len(common.models)
        expected = squared_errors(common, n_trained).mean()
        if best is not None:
            others = squared_errors(best, None)
            expected += others.mean() - squared_errors(best, n_trained).mean()
        assert loss == pytest.approx(expected, rel=1e-5)


def test_a_thorough_search_trains_all_settings_in_all_folds(library, tried, monkeypatch):
    limit(monkeypatch, repeats=False, task_splits=(), subsamples=(0.7,), small_steps=False)
    fitted(library, effort="thorough", linear_effects=False)
    assert all(len(each.common.models) == each.folds > 2 for each in tried)
    assert len(tried) > 1


@pytest.mark.parametrize(("effort", "leaves"), [("balanced", True), ("thorough", False)])
def test_a_chosen_model_behind_in_the_first_folds_is_left(library, monkeypatch, effort, leaves):
    # In the small steps in which trees after linear effects are compared with others.
    searches = []
    monkeypatch.setattr(planning, "with_linear_effects", lambda found, _: searches.append(found))
    limit(monkeypatch, repeats=False, task_splits=(), subsamples=(0.7,), small_steps=False)
    fitted(library, effort=effort)
    (found,) = searches
    n_folds, losses = len(found.folds.pairs), found.common.losses_of_rows()
    assert n_folds > 2
    for distance, n_trained in ((-10.0, 2 if leaves else n_folds), (10.0, n_folds)):
        common = found.fit_chosen(found.settings, to_beat=losses + distance)
        assert len(common.models) == n_trained
    assert len(found.fit_chosen(found.settings).models) == n_folds
