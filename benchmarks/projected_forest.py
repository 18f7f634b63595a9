# SPDX-License-Identifier: Apache-2.0
"""What do projections of the labels cost and save? (figures 5.1 and 5.4 of joly2016)

Delicious (983 labels): seconds to fit, and label ranking average precision on its test rows, of
projected forests against scikit-learn's multi-output random forest with as many trees, fully grown,
on the same threads.

    python benchmarks/projected_forest.py --data FOLDER [--trees 100] [--seeds 3] [--no-sklearn]
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import label_ranking_average_precision_score

from mtboost import ProjectedForestClassifier

KINDS = ("gaussian", "rademacher", "achlioptas", "sparse", "hadamard", "subsample")
COMPONENTS = (1, 4, 7, 15, 50)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("MTBOOST_DATA"))
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-sklearn", action="store_true", help="leave out the slow one")
    args = parser.parse_args()
    with np.load(Path(args.data, "delicious.npz"), allow_pickle=False) as data:
        parts = data["X_data"], data["X_indices"], data["X_indptr"]
        X = scipy.sparse.csr_array(parts, shape=data["X_shape"]).toarray().astype(np.float32)
        Y, is_test = data["Y"], data["split"] == 1
    labels = scipy.sparse.csr_array(Y[~is_test])
    print(f"{(~is_test).sum()} rows, {Y.shape[1]} labels, {args.trees} trees, {args.seeds} seeds")
    print(f"{'':26}{'seconds':>9}{'precision':>11}{'sd':>8}")

    def report(name: str, make: Any, y: Any) -> None:
        seconds, precision = [], []
        for seed in range(args.seeds):
            model = make(seed)
            start = time.perf_counter()
            model.fit(X[~is_test], y)
            seconds.append(time.perf_counter() - start)
            predict = getattr(model, "predict_proba", model.predict)
            precision.append(label_ranking_average_precision_score(Y[is_test], predict(X[is_test])))
        spread = np.std(precision, ddof=1) if args.seeds > 1 else 0.0
        print(f"{name:26}{np.median(seconds):9.1f}{np.mean(precision):11.4f}{spread:8.4f}")

    def projected(**options: Any) -> Any:
        return lambda seed: ProjectedForestClassifier(
            args.trees, random_state=seed, n_jobs=args.threads, **options
        )

    for n_components in COMPONENTS:
        report(f"gaussian, {n_components}", projected(n_components=n_components), labels)
    for kind in KINDS[1:]:
        report(f"{kind}, 7", projected(projection=kind, n_components=7), labels)
    report("gaussian, 7, shared", projected(n_components=7, shared=True), labels)
    report("all labels", projected(projection=None), labels)
    if not args.no_sklearn:
        report(
            "scikit-learn",
            lambda seed: RandomForestRegressor(
                args.trees, max_features="sqrt", random_state=seed, n_jobs=args.threads
            ),
            Y[~is_test].astype(float),
        )


if __name__ == "__main__":
    main()
