# SPDX-License-Identifier: Apache-2.0
"""What does each library do on several tasks if nobody sets anything?

XGBoost, LightGBM, CatBoost and scikit-learn's HistGradientBoosting on one table with the task as a
categorical column, LightGBM for each task, and mtboost's estimators as they are ("mtboost"),
with effort="fast" and with strategy="two-stage". Nothing is chosen and nothing held out, except by
a library's defaults.

Data sets are generated (weeks of fraud in six channels and of retail in 60 stores, to be predicted
for the last quarter of the weeks; a fraud scene of two tasks; families of tasks) or tables of a
folder (task_data/folder.py has the formats). The folder of the published results has School,
Landmine, and the data sets of several outputs or labels `atp1d`, `wq`, `emotions`, `yeast` and
`delicious`, each output a task. A quarter of the rows is for testing, and 5 %, 20 % and 100 % of
the others to train on, unless fewer than five rows a task are left.

Scores: area under the ROC curve, mean over tasks with both classes, or explained variance of all
test rows; log loss or RMSE; calibration error of ten bins (the last three are means over tasks).
Outputs are standardised by their training rows. Seconds are of processor time.

Results are appended to a file, one line for each data set, seed and method, and those that are in
it are not computed again. Needs `pip install lightgbm pandas`, and catboost for its method.

    python benchmarks/out_of_the_box.py --out results.jsonl [--data FOLDER] [--seeds 5]
    python benchmarks/out_of_the_box.py --out results.jsonl --table
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import task_comparison
from task_data import make_family, make_fraud_scene, make_fraud_weeks, make_retail_weeks, task_set
from task_data.task_set import MakeRows, TaskSet
from task_methods import DEFAULTS, PEERS_OF_DEFAULTS

FAMILIES = ("clustered zipf", "unrelated balanced", "related zipf binary")
ROWS: dict[str, MakeRows] = {
    "fraud weeks": make_fraud_weeks,
    "retail weeks": make_retail_weeks,
    "fraud scene": make_fraud_scene,
}


def split_rows(make: MakeRows, seed: int, part: float) -> TaskSet:
    return task_set(make(seed), seed, part)


def main(arguments: Sequence[str] | None = None) -> None:
    task_comparison.main(
        arguments,
        __doc__,
        {name: partial(split_rows, make) for name, make in ROWS.items()}
        | {name: partial(make_family, name) for name in FAMILIES},
        DEFAULTS,
        references=[name for name in DEFAULTS if name not in PEERS_OF_DEFAULTS],
        peers=PEERS_OF_DEFAULTS,
        rows=(0.05, 0.2, 1.0),
        seeds=5,
    )


if __name__ == "__main__":
    main()
