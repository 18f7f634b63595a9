# SPDX-License-Identifier: Apache-2.0
"""
Hundreds of tags of bookmarks
=============================

Hundreds of labels for the price of a few: forests on random projections of the labels.

Delicious (Mulan; 16 105 pages, 983 tags, 500 words) is not part of this project. It is read from
an .npz file with the arrays Y, split (0 train, 1 test), and X_data, X_indices, X_indptr and X_shape
of the words as a CSR matrix::

    python examples/delicious_projections.py path/to/delicious.npz
    MTBOOST_DATA=path/to/folder python examples/delicious_projections.py

Without it, tags are generated. The figure shows how few components are enough.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.metrics import label_ranking_average_precision_score

import mtboost

N_TREES = 20
Rows = tuple[npt.NDArray[np.float32], scipy.sparse.csr_array]


def main() -> None:
    train, test = read_rows()
    n_labels = train[1].shape[1]
    print(
        f"{train[0].shape[0]} rows to train on, {test[0].shape[0]} to test, {n_labels} labels, "
        f"{train[1].nnz / train[0].shape[0]:.1f} a row; {N_TREES} trees\n"
    )
    print(f"{'components':>10} {'seconds':>9} {'label ranking AP':>17}")
    components = [1, 2, 4, round(np.log(n_labels)), 15, 30]
    found = [evaluate(train, test, q) for q in components]
    everything = evaluate(train, test, None)
    draw(components, found, everything)


def evaluate(train: Rows, test: Rows, q: int | None) -> tuple[float, float]:
    """Seconds to fit, and average precision of the ranking of labels of test rows."""
    if q is None:
        model = mtboost.ProjectedForestClassifier(N_TREES, projection=None, random_state=0)
    else:
        model = mtboost.ProjectedForestClassifier(N_TREES, n_components=q, random_state=0)
    start = time.perf_counter()
    model.fit(*train)
    seconds = time.perf_counter() - start
    probabilities = model.predict_proba(test[0])
    precision = float(label_ranking_average_precision_score(test[1].toarray(), probabilities))
    print(f"{q or 'all labels':>10} {seconds:9.2f} {precision:17.3f}")
    return seconds, precision


def read_rows() -> tuple[Rows, Rows]:
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MTBOOST_DATA")
    if given is None:
        X, Y = make_pages(np.random.default_rng(0))
        is_test = np.arange(len(X)) % 4 == 0
    else:
        path = Path(given, "delicious.npz") if Path(given).is_dir() else Path(given)
        with np.load(path, allow_pickle=False) as data:
            parts = data["X_data"], data["X_indices"], data["X_indptr"]
            X = scipy.sparse.csr_array(parts, shape=data["X_shape"]).toarray()
            Y, is_test = data["Y"], data["split"] == 1
    X = X.astype(np.float32)
    train, test = (
        (X[rows], scipy.sparse.csr_array(Y[rows].astype(np.int8))) for rows in (~is_test, is_test)
    )
    return train, test


def make_pages(rng: np.random.Generator) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Words and tags of pages: each page has two of forty topics, which prefer some of both."""
    n_pages, n_topics, n_words, n_tags = 4000, 40, 300, 300
    topics = np.zeros((n_pages, n_topics))
    np.put_along_axis(topics, rng.integers(n_topics, size=(n_pages, 2)), 1.0, axis=1)

    def draw_by_topic(n_columns: int, n_preferred: int, often: float) -> npt.NDArray[np.int64]:
        chance = np.full((n_topics, n_columns), 0.01)
        for own in chance:
            own[rng.choice(n_columns, n_preferred, replace=False)] = often
        missed = np.exp(topics @ np.log1p(-chance))
        return np.asarray(rng.random((n_pages, n_columns)) > missed, dtype=np.int64)

    return draw_by_topic(n_words, 15, 0.3), draw_by_topic(n_tags, 10, 0.5)


def draw(
    components: list[int], found: list[tuple[float, float]], everything: tuple[float, float]
) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    names = ["seconds to fit", "label ranking average precision"]
    for number, (ax, name) in enumerate(zip(axes, names, strict=True)):
        ax.plot(components, [pair[number] for pair in found], "o-", label="projected")
        ax.axhline(everything[number], linestyle="--", color="gray", label="all labels")
        ax.set_xlabel("components")
        ax.set_title(name)
    axes[0].legend()
    figure.savefig("delicious_projections.png", dpi=120)


if __name__ == "__main__":
    main()
