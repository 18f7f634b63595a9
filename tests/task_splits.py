# SPDX-License-Identifier: Apache-2.0
"""Trainings with a task column, in both libraries."""

import libraries
import lightgbm
import numpy as np
import pandas as pd
import xgboost

import mtboost.lightgbm
import mtboost.xgboost
from mtboost.base.checked_tables import as_table
from mtboost.lightgbm import resolve as lightgbm_resolve
from mtboost.xgboost import resolve as xgboost_resolve
from mtboost.xgboost.library import check_readable


def make_rows(n_rows=1500, n_tasks=8, seed=0):
    """A table with a number, a category and missing values; tasks of two kinds and unequal size."""
    rng = np.random.default_rng(seed)
    sizes = rng.random(n_tasks) + 0.2
    codes = rng.choice(n_tasks, n_rows, p=sizes / sizes.sum())
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n_rows),
            "b": np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(size=n_rows)),
            "c": pd.Categorical(rng.choice(list("uvwxyz"), n_rows)),
        }
    )
    y = X["a"] * np.where(codes % 2, 1, -1) + X["c"].cat.codes * (codes % 3) / 2
    return X, (y + rng.normal(size=n_rows)).to_numpy(), codes


def with_tasks(table, codes, names=None):
    """A table with the tasks as last column; of a frame a category, without codes missing."""
    if isinstance(table, np.ndarray):
        column = np.full(len(table), np.nan) if codes is None else codes
        return np.column_stack([table, column])
    if codes is None:
        return table.assign(task=pd.Categorical([None] * len(table), categories=names))
    return table.assign(task=pd.Categorical.from_codes(codes, categories=names))


class XGBoost(libraries.XGBoost):
    def matrix(self, table, y=None, categories=()):
        if isinstance(table, np.ndarray):
            places = {place % table.shape[1] for place in categories}
            types = ["c" if place in places else "q" for place in range(table.shape[1])]
            return xgboost.DMatrix(table, y, feature_types=types, enable_categorical=True)
        check_readable(as_table(table))
        return xgboost.DMatrix(table, y, enable_categorical=True)

    def train(self, table, y, params, n_rounds=8, split=None, categories=(2, 3)):
        matrix = self.matrix(table, y, categories)
        callbacks = [mtboost.xgboost.TaskSplit(**split)] if split else []
        params = {"nthread": 1, "max_depth": 4, **params}
        return xgboost.train(params, matrix, n_rounds, callbacks=callbacks)

    def resolve(self, booster, code):
        document = mtboost.xgboost.assemble.read_document(booster)
        resolved = xgboost_resolve.resolve_task(document, code)
        return mtboost.xgboost.assemble.load_document(resolved)

    def margins(self, booster, table, categories=(2, 3)):
        matrix = self.matrix(table, categories=[c for c in categories if c < table.shape[1]])
        return booster.predict(matrix, output_margin=True)

    def contributions(self, booster, table, categories=(2, 3)):
        matrix = self.matrix(table, categories=[c for c in categories if c < table.shape[1]])
        return booster.predict(matrix, pred_contribs=True)

    def features_of_trees(self, booster):
        """Features that the nodes of each tree test."""
        document = mtboost.xgboost.assemble.read_document(booster)
        return [
            tree["split_indices"][tree["left_children"] >= 0]
            for tree in mtboost.xgboost.assemble.trees_of(document)
        ]

    def reloaded(self, booster, path):
        booster.save_model(path / "model.json")
        loaded = xgboost.Booster()
        loaded.load_model(path / "model.json")
        return loaded


class LightGBM(libraries.LightGBM):
    def train(self, table, y, params, n_rounds=8, split=None, categories=(2, 3)):
        options = {}
        if isinstance(table, np.ndarray):
            options["categorical_feature"] = [c % table.shape[1] for c in categories]
        data = lightgbm.Dataset(table, y, **options)
        callbacks = [mtboost.lightgbm.TaskSplit(**split)] if split else []
        # As much freedom as XGBoost gives to categories.
        free = {"min_data_per_group": 1, "cat_smooth": 1.0, "cat_l2": 0.0}
        params = {"num_threads": 1, "num_leaves": 12, "verbosity": -1, **free, **params}
        return lightgbm.train(params, data, n_rounds, callbacks=callbacks)

    def resolve(self, booster, code):
        document = mtboost.lightgbm.assemble.read_document(booster)
        resolved = lightgbm_resolve.resolve_task(document, code)
        return mtboost.lightgbm.assemble.load_document(resolved)

    def margins(self, booster, table, categories=(2, 3)):
        return booster.predict(table, raw_score=True)

    def contributions(self, booster, table, categories=(2, 3)):
        return booster.predict(table, pred_contrib=True)

    def features_of_trees(self, booster):
        document = mtboost.lightgbm.assemble.read_document(booster)
        return [mtboost.lightgbm.assemble.read_tree(t).split_feature for t in document.trees]

    def reloaded(self, booster, path):
        booster.save_model(path / "model.txt")
        return lightgbm.Booster(model_file=path / "model.txt")


LIBRARIES = {library.name: library for library in (XGBoost(), LightGBM())}
