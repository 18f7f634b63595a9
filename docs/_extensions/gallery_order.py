# SPDX-License-Identifier: Apache-2.0
"""The order of the examples in the gallery: guides, comparisons, plug-ins, then the rest."""

from pathlib import Path

FIRST = (
    "plot_fraud_week",
    "plot_store_week",
    "plot_multi_label",
    "plot_cold_start_market",
    "plot_what_was_learned",
    "plot_fraud_scenes",
    "plot_heterogeneous_features",
    "plot_mixed_tasks",
    "plot_xgboost_callbacks",
    "plot_lightgbm_callbacks",
)


class ByLesson:
    """Sort key of a file name; examples that run at build come before the others."""

    def __init__(self, folder: str) -> None:
        """Take the folder of the examples, which the gallery passes."""

    def __call__(self, file_name: str) -> tuple[int, bool, str]:
        """Return the key of a file."""
        name = Path(file_name).stem
        place = FIRST.index(name) if name in FIRST else len(FIRST)
        return place, not name.startswith("plot_"), name

    def __repr__(self) -> str:
        """Return a name that does not change between builds."""
        return "<ByLesson>"
