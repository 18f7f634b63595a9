# SPDX-License-Identifier: Apache-2.0
"""
Two people sort the same mail
=============================

One collection of mail, two label sets: each person sorts it into different folders.

One has five folders by topic, the other asks only whether a mail matters for a lawsuit. No label of
one means a label of the other, yet both follow what the mails are about. Each mail is sorted by one
of them, and few are sorted at all.

Mails are drawn from a topic model: a mail mixes topics, a topic is a distribution over words, and
words are counted. Boosted decision trees of both tasks together are compared with those of each:
the harder task gains, the easier one does not need the other.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from mtboost.estimators.forests import MTAdaBoostClassifier

N_WORDS, N_TOPICS, WORDS_IN_A_MAIL = 300, 10, 40
FOLDERS = np.array(["business", "legal", "influence", "arrangement", "personal"])
N_TRAIN, N_TEST, N_COLLECTIONS = 80, 1000, 8
ROUNDS = 60
CRITERIA: tuple[Literal["joint", "max"], ...] = ("joint", "max")
PLOT_FILE = "mt_adaboost_text.png"

Labels = npt.NDArray[np.str_]
Counts = npt.NDArray[np.float32]


def main() -> None:
    errors: dict[str, list[list[list[float]]]] = {}
    for seed in range(N_COLLECTIONS):
        for name, curves in compare(np.random.default_rng(seed)).items():
            errors.setdefault(name, []).append(curves)
    means = {name: np.mean(curves, axis=0) for name, curves in errors.items()}

    print(f"Test error, mean of {N_COLLECTIONS} collections, {N_TRAIN} mails to train on per task")
    print(f"{'':20}{'folder':>10}{'lawsuit':>10}")
    for name, curves in means.items():
        print(f"{name:20}{curves[0, -1]:10.3f}{curves[1, -1]:10.3f}")
    plot(means)


def compare(rng: np.random.Generator) -> dict[str, list[list[float]]]:
    """Test error of each model, by task and round."""
    words_of_topic = rng.dirichlet(np.full(N_WORDS, 0.05), N_TOPICS)
    mails, folder, lawsuit = draw_mails(rng, words_of_topic, 2 * N_TRAIN)
    test_mails, test_folder, test_lawsuit = draw_mails(rng, words_of_topic, N_TEST)
    truth = {"folder": test_folder, "lawsuit": test_lawsuit}
    task = np.repeat(list(truth), N_TRAIN)
    y = np.where(task == "folder", folder, lawsuit)

    errors = {}
    for criterion in CRITERIA:
        model = MTAdaBoostClassifier(ROUNDS, criterion=criterion).fit(mails, y, task=task)
        errors[f"together, {criterion}"] = [
            staged_error(model, test_mails, labels, np.full(N_TEST, name))
            for name, labels in truth.items()
        ]
    errors["each alone"] = []
    for name, labels in truth.items():
        own = task == name
        alone = MTAdaBoostClassifier(ROUNDS).fit(mails[own], y[own])
        errors["each alone"].append(staged_error(alone, test_mails, labels))
    return errors


def draw_mails(
    rng: np.random.Generator, words_of_topic: npt.NDArray[np.float64], n_mails: int
) -> tuple[Counts, Labels, Labels]:
    """Counts of words, and the two labels that the topics of each mail give it."""
    topics = rng.dirichlet(np.full(N_TOPICS, 0.2), n_mails)
    mails = rng.multinomial(WORDS_IN_A_MAIL, topics @ words_of_topic).astype(np.float32)
    main_topic = topics.argmax(axis=1)
    matters = topics[:, : N_TOPICS // 3].sum(axis=1) > 0.3
    return mails, FOLDERS[main_topic % len(FOLDERS)], np.where(matters, "responsive", "other")


def staged_error(
    model: MTAdaBoostClassifier, mails: Counts, labels: Labels, task: Labels | None = None
) -> list[float]:
    """Share of wrong labels after each round; a training that ended early stays where it is."""
    errors = [float(np.mean(found != labels)) for found in model.staged_predict(mails, task=task)]
    return errors + errors[-1:] * (ROUNDS - len(errors))


def plot(means: dict[str, npt.NDArray[np.float64]]) -> None:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print("\nNo plot: it needs matplotlib (pip install matplotlib).")
        return
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for panel, title, number in zip(
        panels, ("five folders", "lawsuit or not"), (0, 1), strict=True
    ):
        for line, (name, curves) in zip(("-", "--", ":"), means.items(), strict=True):
            panel.plot(range(1, ROUNDS + 1), curves[number], line, label=name)
        panel.set(title=title, xlabel="round", ylabel="test error")
    panels[0].legend()
    figure.savefig(PLOT_FILE, dpi=120)
    print(f"\nPlot: {PLOT_FILE}")


if __name__ == "__main__":
    main()
