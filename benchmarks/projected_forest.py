# SPDX-License-Identifier: Apache-2.0
"""What do projections of the labels cost and save? (figures 5.1 and 5.4 of joly2016)

Delicious (983 labels): processor seconds to fit on one thread, and label ranking average precision
on its test rows, of projected forests against scikit-learn's multi-output random forest with as
many trees, fully grown.

    python benchmarks/projected_forest.py --out results.jsonl --data FOLDER [--trees 10] [--seeds 3]
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from peer_runs import append, parser, read
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import label_ranking_average_precision_score

from mtboost import ProjectedForestClassifier

KINDS = ("gaussian", "rademacher", "achlioptas", "sparse", "hadamard", "subsample")
COMPONENTS = (1, 4, 7, 15, 50)


def methods(n_trees: int, n_threads: int, seed: int) -> dict[str, Any]:
    options = {"random_state": seed, "n_jobs": n_threads}
    projected = partial(ProjectedForestClassifier, n_trees, **options)
    return {
        **{f"gaussian, {n}": projected(n_components=n) for n in COMPONENTS},
        **{f"{kind}, 7": projected(projection=kind, n_components=7) for kind in KINDS[1:]},
        "gaussian, 7, shared": projected(n_components=7, shared=True),
        "all labels": projected(projection=None),
        "scikit-learn": RandomForestRegressor(n_trees, max_features="sqrt", **options),
    }


def lines_of(folder: Path, n_trees: int, n_threads: int, seed: int) -> Iterator[dict[str, Any]]:
    with np.load(folder / "delicious.npz", allow_pickle=False) as data:
        parts = data["X_data"], data["X_indices"], data["X_indptr"]
        X = scipy.sparse.csr_array(parts, shape=data["X_shape"]).toarray().astype(np.float32)
        Y, is_test = data["Y"], data["split"] == 1
    labels = scipy.sparse.csr_array(Y[~is_test])
    for name, model in methods(n_trees, n_threads, seed).items():
        y = Y[~is_test].astype(float) if name == "scikit-learn" else labels
        start = time.process_time()
        model.fit(X[~is_test], y)
        seconds = time.process_time() - start
        predict = getattr(model, "predict_proba", model.predict)
        precision = label_ranking_average_precision_score(Y[is_test], predict(X[is_test]))
        own = {"method": name, "seed": seed, "trees": n_trees, "threads": n_threads}
        yield own | {"seconds": seconds, "precision": float(precision)}


def main() -> None:
    found = parser(__doc__)
    found.add_argument("--data", type=Path, default=os.environ.get("MTBOOST_DATA"))
    found.add_argument("--trees", type=int, default=10)
    found.add_argument("--threads", type=int, default=1)
    args = found.parse_args()
    for seed in range(0 if args.table else args.seeds):
        append(args.out, lines_of(Path(args.data), args.trees, args.threads, seed))
    by_method = read(args.out).groupby("method", sort=False)
    print(by_method[["seconds", "precision"]].agg(["median", "mean", "std"]).round(4).to_string())


if __name__ == "__main__":
    main()
