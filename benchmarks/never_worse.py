# SPDX-License-Identifier: Apache-2.0
"""Is `mtboost.fit(strategy="auto")` ever worse than what one would do without it?

Generated families of tasks that are related in seven ways (balanced sizes and Zipf's; two of them
also with classes), and every table of a folder (task_data/folder.py has the formats): School,
Landmine, data sets of several outputs, or tables of your own. Every method chooses by rows that it
holds out of the training rows, with the same budget, then trains on all training rows and is judged
once on test rows. All but mtboost's methods that hold rows out themselves ("auto", "auto thorough"
and "two-stage quitting") choose by the same rows; "auto eval_set" does so too, and does without
them in training.

- tables: a quarter of the rows to test, the last ones where there is a column `time`. School has
  75 % of each task to train on, Landmine of each task and class. `--rows` trains on parts of them.
- families: rows as generated, 1000 new rows of each task to test, compared with the true signal
- scores: area under the ROC curve, or explained variance of all test rows (families: mean over
  tasks), and the log loss or the RMSE, mean over tasks; calibration error of probabilities

Differences are paired over seeds: mean and standard error. Results are appended to a file, one line
for each data set, seed and method, and those that are in it are not computed again.
results/never_worse.jsonl contains the results so far; remove the lines of a method that has
changed.

Needs `pip install lightgbm pandas`; catboost, gpboost and (for parquet) pyarrow if they are
installed. Robust multi-task gradient boosting (Emami et al., 2025) is not a package: it is left
out.

    python benchmarks/never_worse.py --out results.jsonl [--data FOLDER] [--seeds 10]
    python benchmarks/never_worse.py --out results.jsonl --data FOLDER --rows 0.05 0.2 1 wq
    python benchmarks/never_worse.py --out results.jsonl --table
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import task_comparison
from task_data import FAMILIES, make_family
from task_methods import METHODS, PEERS


def main(arguments: Sequence[str] | None = None) -> None:
    task_comparison.main(
        arguments,
        __doc__,
        {name: partial(make_family, name) for name in FAMILIES},
        METHODS,
        references=["auto"],
        peers=PEERS,
    )


if __name__ == "__main__":
    main()
