# SPDX-License-Identifier: Apache-2.0
"""Related tasks: distribution of rows, labels and noise, and relations of the tasks."""

import pickle

import numpy as np
import pytest
from property.draws import FEW
from scipy import stats

from mtboost.datasets import Region, RegionalConcept, make_related_tasks
from mtboost.datasets.regions import draw_region
from mtboost.errors import DataError

LABELS = (3, 2, 4)


@pytest.fixture(scope="module")
def tasks():
    return make_related_tasks((20_000, 10_000, 5_000), n_labels=LABELS, seed=1)


def all_bytes(tasks, task):
    return [
        of_task[task].tobytes()
        for of_task in (tasks.X, tasks.y, tasks.clean_y, tasks.region, tasks.bayes_probability)
    ]


def mutual_information(first, second):
    """Bits that one column of labels tells of the other."""
    counts = np.zeros((first.max() + 1, second.max() + 1))
    np.add.at(counts, (first, second), 1)
    joint = counts / counts.sum()
    independent = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    seen = joint > 0
    return float((joint[seen] * np.log2(joint[seen] / independent[seen])).sum())


# ---- rows, labels, seeds ----


def test_every_task_has_its_rows_and_labels(tasks):
    assert list(tasks.X) == ["task1", "task2", "task3"]
    for task, n_rows, n_labels in zip(tasks.X, (20_000, 10_000, 5_000), LABELS, strict=True):
        X, y, probability = tasks.X[task], tasks.y[task], tasks.bayes_probability[task]
        assert (X.shape, X.dtype, X.flags.c_contiguous) == ((n_rows, 2), np.float32, True)
        assert (y.shape, y.dtype) == ((n_rows,), np.int64)
        assert (probability.shape, probability.dtype) == ((n_rows, n_labels), np.float64)
        assert np.isfinite(X).all()
        assert set(y) == set(tasks.clean_y[task]) == set(range(n_labels))
        assert set(tasks.region[task]) == set(range(4))


def test_one_number_of_rows_is_for_all_tasks():
    tasks = make_related_tasks(np.int64(30), n_labels=(2, 5), n_regions=3)
    assert [len(y) for y in tasks.y.values()] == [30, 30]
    assert repr(tasks) == "RelatedTasks(task1: 30 rows, 2 labels, task2: 30 rows, 5 labels)"


def test_same_seed_gives_same_bytes_and_another_seed_others():
    first, again, other = (make_related_tasks(200, seed=seed) for seed in (3, 3, 4))
    for task in first.X:
        assert all_bytes(first, task) == all_bytes(again, task)
        assert all(
            a != b for a, b in zip(all_bytes(first, task), all_bytes(other, task), strict=True)
        )


def test_more_rows_of_one_task_leave_the_others_and_all_concepts_alone():
    first = make_related_tasks((200, 300), seed=5)
    more = make_related_tasks((500, 300), seed=5)
    assert all_bytes(first, "task2") == all_bytes(more, "task2")
    probability = more.concept["task1"].probability(first.X["task1"])
    np.testing.assert_array_equal(probability, first.bayes_probability["task1"])


def test_noise_leaves_rows_and_labels_before_it_alone():
    quiet, noisy = (make_related_tasks(500, label_noise=noise, seed=6) for noise in (0, 0.3))
    for task in quiet.X:
        np.testing.assert_array_equal(quiet.X[task], noisy.X[task])
        np.testing.assert_array_equal(quiet.y[task], noisy.clean_y[task])
        np.testing.assert_array_equal(quiet.y[task], quiet.clean_y[task])


@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_noise_has_its_rate_and_spares_no_other_label(noise):
    tasks = make_related_tasks(20_000, n_labels=LABELS, label_noise=noise, seed=7)
    for task, n_labels in zip(tasks.y, LABELS, strict=True):
        step = (tasks.y[task] - tasks.clean_y[task]) % n_labels
        wanted = np.array([1 - noise, *[noise / (n_labels - 1)] * (n_labels - 1)])
        share = np.bincount(step, minlength=n_labels) / len(step)
        error = np.sqrt(wanted * (1 - wanted) / len(step))
        assert (np.abs(share - wanted) < FEW * error).all()


def test_labels_have_as_many_parts_as_each_other_and_parts_as_many_rows(tasks):
    for task, n_labels in zip(tasks.y, LABELS, strict=True):
        concept = tasks.concept[task]
        parts = np.bincount(concept.labels.ravel(), minlength=n_labels)
        assert parts.sum() == 2 * len(concept.regions)
        assert np.ptp(parts) <= 1
        region, X = tasks.region[task], tasks.X[task].astype(float)
        for number, of_region in enumerate(concept.regions):
            rows = X[region == number]
            assert abs(len(rows) / len(X) - 1 / 4) < FEW * np.sqrt(3 / 16 / len(X))
            assert abs(of_region.is_upper(rows).mean() - 1 / 2) < FEW * np.sqrt(1 / 4 / len(rows))


# ---- densities and the best possible score ----


def test_rows_of_a_region_have_its_density():
    # Share of rows in a box against the integral over it, on 600 x 600 midpoints: the kink of a
    # Laplace density is the roughest there is, off by less than 1e-4 of the box.
    rng = np.random.default_rng(8)
    n_rows, kinds = 20_000, set()
    for _ in range(20):
        region = draw_region(np.array([1.0, -2.0]), rng)
        kinds |= {region.curve.__name__, region.parent_law.dist.name, region.child_law.dist.name}
        low = region.center - np.array([0.5, 0.3])
        high = region.center + np.array([0.2, 0.6])
        axes = [a + (b - a) * (np.arange(600) + 0.5) / 600 for a, b in zip(low, high, strict=True)]
        grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        expected = np.exp(region.log_density(grid)).mean() * (high - low).prod()
        rows = region.draw(n_rows, rng)
        share = ((rows > low) & (rows < high)).all(axis=1).mean()
        error = np.sqrt(expected * (1 - expected) / n_rows)
        assert abs(share - expected) < FEW * error + 1e-4
    assert kinds == {"_linear", "_cubic", "_exponential", "beta", "norm", "laplace"}


def test_bayes_probability_is_that_of_the_labels(tasks):
    # Overlapping regions matter here: their density alone decides between labels.
    for task, probability in tasks.bayes_probability.items():
        X, y = tasks.X[task].astype(float), tasks.y[task]
        np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-12)  # a sum of 4 regions
        for label in range(probability.shape[1]):
            residual = (y == label) - probability[:, label]
            variance = probability[:, label] * (1 - probability[:, label])
            for values in (np.ones(len(y)), X[:, 0], X[:, 1], probability[:, label] > 0.5):
                error = np.sqrt((variance * values**2).sum())
                assert abs((residual * values).sum()) < FEW * error


def test_bayes_probability_is_the_noise_where_regions_do_not_overlap():
    law = stats.beta(2, 2, loc=-0.5)
    regions = tuple(
        Region(0, np.array([place, 0.0]), np.negative, 1.0, law, law) for place in (0.0, 10.0)
    )
    concept = RegionalConcept(regions, np.array([[0, 1], [2, 2]]), n_labels=3, label_noise=0.1)
    found = concept.probability([[-0.2, 0.2], [0.2, -0.2], [10.2, -0.2]])
    # The label of the part has 1 - noise, the two others share the noise.
    np.testing.assert_allclose(found, 0.05 + 0.85 * np.eye(3), rtol=1e-12)
    assert np.isnan(concept.probability([[5.0, 0.0]])).all()


# ---- relatedness ----


def labels_without_noise(seed, relatedness):
    """Labels of two tasks at the rows of the first, its regions, where each changes its label."""
    tasks = make_related_tasks(
        2_000, n_labels=(2, 2), relatedness=relatedness, label_noise=0, seed=seed
    )
    concepts = tasks.concept.values()
    probability = [concept.probability(tasks.X["task1"]) for concept in concepts]
    possible = np.isfinite(probability).all(axis=(0, 2))
    changes = [np.ptp(concept.labels, axis=1) > 0 for concept in concepts]
    return np.argmax(probability, axis=2)[:, possible], tasks.region["task1"][possible], changes


def test_tasks_are_related_within_a_region_and_hardly_over_all():
    # Where both tasks change their label between the parts of a region, one tells the other: 1 bit,
    # less what overlaps. Nulls: the same labels shuffled within the region, tasks with regions of
    # their own, and the same tasks over all regions, where what a label goes with changes.
    inside, shuffled, over_all, apart = [], [], [], []
    for seed in range(20):
        labels, region, changes = labels_without_noise(seed, relatedness=1)
        over_all.append(mutual_information(*labels))
        for number in np.flatnonzero(changes[0] & changes[1]):
            first, second = labels[:, region == number]
            inside.append(mutual_information(first, second))
            mixed = np.random.default_rng(seed).permutation(second)
            shuffled.append(mutual_information(first, mixed))
        labels, region, changes = labels_without_noise(seed, relatedness=0)
        own = [labels[:, region == number] for number in np.flatnonzero(changes[0])]
        apart += [mutual_information(first, second) for first, second in own]
    assert len(inside) > 10
    # Measured: 0.978 at least, and on average 0.0013, 0.049 and 0.13.
    assert min(inside) > 0.9
    assert np.mean(shuffled) < 0.01
    assert np.mean(over_all) < 0.1
    assert np.mean(apart) < 0.25


@pytest.mark.parametrize(("relatedness", "n_common"), [(0, 0), (0.3, 1), (0.5, 2), (1, 4)])
def test_relatedness_is_the_share_of_common_regions(relatedness, n_common):
    tasks = make_related_tasks(10, relatedness=relatedness, seed=9)
    first, second = (concept.regions for concept in tasks.concept.values())
    common = [a is b for a, b in zip(first, second, strict=True)]
    assert common == [True] * n_common + [False] * (4 - n_common)


# ---- the objects ----


def test_tasks_survive_pickling(tasks):
    again = pickle.loads(pickle.dumps(tasks))
    for task, X in tasks.X.items():
        assert all_bytes(again, task) == all_bytes(tasks, task)
        np.testing.assert_array_equal(
            again.concept[task].probability(X), tasks.bayes_probability[task]
        )


def test_concept_refuses_rows_without_two_columns(tasks):
    with pytest.raises(DataError, match="shape .5, 3., but rows of this concept have 2 columns"):
        tasks.concept["task1"].probability(np.zeros((5, 3)))
