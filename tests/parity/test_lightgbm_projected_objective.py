# SPDX-License-Identifier: Apache-2.0
"""ProjectedObjective for LightGBM: gbrt-rpo around LightGBM's own trees.

The twin below runs the algorithm in NumPy and double precision, from the gradients of each round to
the outputs' multiples, and lets stock LightGBM grow a tree on these gradients. Leaves hold the same
rows unless two cuts tie to seven digits. Not compared: bags, whose rows LightGBM does not tell.
"""

import copy
import pickle

import lightgbm
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize
from scipy.special import expit

from mtboost._core import ForestProjection, ResidualProjection
from mtboost.datasets import make_friedman1_group
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.lightgbm import ProjectedObjective, TaskSplit
from mtboost.lightgbm.library import version

needs_estimators = pytest.mark.skipif(
    version() < (4, 6), reason="estimators of LightGBM 4.5 do not work with scikit-learn 1.8"
)

N, D = 300, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5))
SIGNAL = np.column_stack([X, X[:, 0] * X[:, 1]]) @ RNG.normal(size=(6, D))
REAL = (SIGNAL + RNG.normal(size=(N, D)) + 3).astype(np.float32)
BINARY = (SIGNAL + RNG.logistic(size=(N, D)) > 1).astype(np.float32)
LABELS = {"regression": REAL, "regression_l1": REAL, "huber": REAL, "binary": BINARY}
IS_UNKNOWN = RNG.random((N, D)) < 0.3
WEIGHT = RNG.integers(1, 4, N).astype(np.float32)
PARAMS = {
    "num_leaves": 7,
    "learning_rate": 0.3,
    "min_data_in_leaf": 1,
    "max_bin": 31,
    "num_threads": 1,
    "verbosity": -1,
    "min_sum_hessian_in_leaf": 5.3,  # no sum of whole weights
}
ROUNDS = 5
KINDS = ["gaussian", "rademacher", "achlioptas", "sparse", "hadamard", "subsample", "pca"]


def with_unknown(y):
    return np.where(IS_UNKNOWN, np.float32(np.nan), y)


def data_of(rows=slice(None), **options):
    # Labels of no meaning; binary would grow no trees if they were all alike.
    return lightgbm.Dataset(X[rows], np.arange(len(X[rows])) % 2, **options)


def train(projected, rounds=ROUNDS, *, data=None, callbacks=(), **params):
    return lightgbm.train(
        {**PARAMS, **params},
        data_of() if data is None else data,
        rounds,
        callbacks=[projected, *callbacks],
    )


def trained(projected, rounds=ROUNDS, **params):
    return projected.model(train(projected, rounds, **params))


def loss_of(objective, margin, label):
    """Loss and negative gradient, of which a NaN label has none."""
    u = label - margin
    if objective == "regression":
        found = u**2 / 2, u
    elif objective == "regression_l1":
        found = np.abs(u), np.sign(u)
    elif objective == "huber":
        a = np.abs(u)
        found = np.where(a <= 0.9, u**2 / 2, 0.9 * (a - 0.45)), u.clip(-0.9, 0.9)
    else:
        found = np.logaddexp(0, margin) - label * margin, label - expit(margin)
    return [np.nan_to_num(part) for part in found]


# ---- against a naive twin, and stock LightGBM ----------------------------------------------------


@pytest.mark.parametrize("are_unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("objective", LABELS)
def test_rounds_are_those_of_the_naive_twin(objective, kind, are_unknown):
    y = with_unknown(LABELS[objective]) if are_unknown else LABELS[objective]
    weight = WEIGHT[:, None] * ~np.isnan(y)
    projected = ProjectedObjective(y, projection=kind, seed=7)
    booster = train(projected, data=data_of(weight=WEIGHT), objective=objective)
    model = projected.model(booster)
    drawn = None if kind == "pca" else ForestProjection(kind, n_components=1)
    # Where all outputs are multiplied with 0 there is no tree.
    rounds = [
        number
        for number in range(ROUNDS)
        if drawn is None or drawn.matrix(n_outputs=D, seed=7, tree=number).any()
    ]
    assert model.rho.shape == (len(rounds), D)

    def mean_loss(constant, output):
        return np.sum(weight[:, output] * loss_of(objective, constant, y[:, output])[0])

    F = np.tile(projected.start.astype(float), (N, 1))
    for output in range(D):
        best = optimize.minimize_scalar(mean_loss, (-1, 3), args=(output,), tol=1e-10).fun
        assert mean_loss(F[0, output], output) <= best * (1 + 1e-6)  # flat, and start is float32

    for number, rho in enumerate(model.rho):
        residual = weight * loss_of(objective, F, y)[1]
        g = booster.predict(X, start_iteration=number, num_iteration=1, raw_score=True)
        projection = drawn
        if kind == "pca":
            directions = ResidualProjection("singular", n_components=1)
            matrix = directions.matrix(residual.astype(np.float32), seed=7, tree=number)
            projection = ForestProjection(matrix)
        # tests/property/test_projections.py has its arithmetic. Rows that count nothing make ties
        # between cuts, and the last bit of a count would decide which one is taken.
        pairs = np.stack([-residual, np.zeros((N, D))], axis=-1).astype(np.float32)
        counts = WEIGHT if not are_unknown else weight.astype(np.float32)
        found = projection.project(pairs, counts, seed=7, tree=rounds[number])
        gradient, hessian = found[:, 0].T.copy()
        stock = lightgbm.train(
            {**PARAMS, "objective": lambda *_, pair=(gradient, hessian): pair},
            data_of(weight=WEIGHT),
            1,
        )
        own = lightgbm.Booster(model_str=booster.model_to_string(1, start_iteration=number))
        # Thresholds between which no row of a node lies make ties, too.
        assert_array_equal(own.predict(X, pred_leaf=True), stock.predict(X, pred_leaf=True))
        # float32 gradients
        assert_allclose(g, stock.predict(X), rtol=1e-4, atol=1e-4)
        limit = 10 / np.abs(g).max() if objective == "binary" else 50
        for output in range(D):
            own = (F[:, output], g, y[:, output], weight[:, output])

            def along(t, own=own):
                margin, direction, label, weight = own
                return np.sum(weight * loss_of(objective, margin + t * direction, label)[0])

            bounds = {"bounds": (-limit, limit), "options": {"xatol": 1e-9}}
            best = optimize.minimize_scalar(along, **bounds).fun
            assert along(rho[output] / PARAMS["learning_rate"]) <= best * (1 + 1e-6)
        F += np.multiply.outer(g, rho)
    assert_allclose(model.predict_margin(X), F, rtol=1e-6)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_outputs_that_are_all_the_same_have_the_model_of_one(n_outputs):
    y = REAL[:, 0].copy()
    params = {"objective": "regression", "min_sum_hessian_in_leaf": 0, "min_data_in_leaf": 5}
    # An odd number of signs does not cancel.
    projected = ProjectedObjective(np.tile(y[:, None], n_outputs), projection="rademacher")
    model = trained(projected, 20, **params)
    stock = lightgbm.train({**PARAMS, **params}, lightgbm.Dataset(X, y), 20)
    # Margins are float32 here.
    assert_allclose(model.predict(X), np.tile(stock.predict(X)[:, None], n_outputs), rtol=1e-4)


@pytest.mark.parametrize("objective", LABELS)
def test_the_loss_never_rises(objective):
    y, history = with_unknown(LABELS[objective]), {}
    projected = ProjectedObjective(y)
    data = data_of(weight=WEIGHT)
    lightgbm.train(
        {**PARAMS, "objective": objective, "learning_rate": 1.0},
        data,
        30,
        valid_sets=[data],
        callbacks=[projected, lightgbm.record_evaluation(history)],
    )
    (losses,) = history["training"].values()
    assert (np.diff(losses) <= 1e-6 * losses[0]).all()  # margins are float32
    assert losses[-1] < losses[0]


# ---- labels that are unknown, and weights --------------------------------------------------------


def test_weight_0_is_as_good_as_an_unknown_label():
    unknown = trained(ProjectedObjective(with_unknown(REAL)))
    zero = trained(ProjectedObjective(REAL, weight=1.0 - IS_UNKNOWN))
    assert_array_equal(unknown.predict(X), zero.predict(X))
    assert not np.allclose(unknown.predict(X), trained(ProjectedObjective(REAL)).predict(X))


def test_weights_of_rows_are_those_of_the_data_set():
    of_data = trained(ProjectedObjective(REAL), data=data_of(weight=WEIGHT))
    of_rows = trained(ProjectedObjective(REAL, weight=WEIGHT))
    of_labels = trained(ProjectedObjective(REAL, weight=np.tile(WEIGHT[:, None], D)))
    both = trained(ProjectedObjective(REAL, weight=WEIGHT), data=data_of(weight=1 / WEIGHT))
    none = trained(ProjectedObjective(REAL))
    assert_array_equal(of_data.predict(X), of_rows.predict(X))
    # As weights of labels they are added up, in proportion to squared entries of the projection.
    assert_allclose(of_data.predict(X), of_labels.predict(X), rtol=1e-6)
    assert_allclose(both.predict(X), none.predict(X), rtol=1e-5)  # 3 * (1 / 3) in float32


def test_an_output_without_a_known_label_stays_at_0():
    y = REAL.copy()
    y[:, 2] = np.nan
    prediction = trained(ProjectedObjective(y)).predict(X)
    assert not prediction[:, 2].any()
    assert (np.ptp(np.delete(prediction, 2, axis=1), axis=0) > 0).all()


@pytest.mark.parametrize("n_unknown", [N, N // 2])
def test_labels_of_which_none_counts_are_refused(n_unknown):
    labels, weight = REAL.copy(), np.ones(N)
    labels[:n_unknown], weight[n_unknown:] = np.nan, 0.0
    with pytest.raises(DataError, match="labels has no known label of a weight above 0"):
        train(ProjectedObjective(labels, weight=weight))


def test_margins_start_from_0_where_lightgbm_would():
    projected = ProjectedObjective(REAL)
    train(projected, boost_from_average=False)
    assert not projected.start.any()


# ---- the model -----------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", LABELS)
def test_the_booster_of_an_output_is_an_ordinary_one(objective, tmp_path):
    model = trained(ProjectedObjective(with_unknown(LABELS[objective])), objective=objective)
    prediction = model.predict(X)
    assert prediction.shape == (N, D)
    for output in range(D):
        booster = model.booster(output)
        booster.save_model(tmp_path / "model.txt")
        for own in (booster, lightgbm.Booster(model_file=tmp_path / "model.txt")):
            assert type(own) is lightgbm.Booster
            # the start is in the first tree, and sums are in another order
            assert_allclose(own.predict(X), prediction[:, output], rtol=1e-12, atol=1e-14)
        contributions = booster.predict(X, pred_contrib=True)
        margin = booster.predict(X, raw_score=True)
        assert_allclose(contributions.sum(axis=1), margin, rtol=1e-9, atol=1e-9)
    if objective == "binary":
        assert ((prediction > 0) & (prediction < 1)).all()


def test_rows_are_predicted_whatever_their_number():
    model = trained(ProjectedObjective(REAL))
    many = np.tile(X, (20, 1))  # more than are predicted at a time
    assert_allclose(model.predict(many), np.tile(model.predict(X), (20, 1)), rtol=1e-14)
    assert model.predict(X[:1]).shape == (1, D)


def test_tables_with_categories_and_missing_values_are_predicted():
    import pandas as pd

    table = pd.DataFrame(X, columns=list("abcde"))
    table["f"] = pd.Categorical(RNG.choice(["u", "v", "w"], N))
    table.loc[::7, "a"] = np.nan
    y = REAL + (table["f"] == "v").to_numpy()[:, None] * 5
    projected = ProjectedObjective(y)
    booster = train(projected, 20, data=lightgbm.Dataset(table, y[:, 0]))
    model = projected.model(booster)
    assert_allclose(model.booster(1).predict(table), model.predict(table)[:, 1], rtol=1e-12)
    assert np.mean((model.predict(table) - y) ** 2) < 0.5 * y.var(axis=0).mean()


def test_model_and_objective_survive_pickling_and_copies():
    projected = ProjectedObjective(with_unknown(REAL), seed=3)
    model = trained(projected)
    expected = model.predict(X)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_array_equal(again.predict(X), expected)
    for again in (pickle.loads(pickle.dumps(projected)), copy.deepcopy(projected)):
        assert_array_equal(trained(again).predict(X), expected)


# ---- the training --------------------------------------------------------------------------------


def test_threads_do_not_change_a_bit():
    y, table = np.tile(with_unknown(REAL), (8, 1)), np.tile(X, (8, 1))  # several blocks of rows
    first, *others = (
        trained(
            ProjectedObjective(y, n_threads=n_threads),
            data=lightgbm.Dataset(table, np.zeros(len(y))),
        ).rho.tobytes()
        for n_threads in (1, 2, 7)
    )
    assert others == [first, first]


def test_seeds_and_rounds_have_their_own_projections_unless_they_are_shared():
    def of(**options):
        return trained(ProjectedObjective(REAL, **options)).predict(X).tobytes()

    assert of(seed=1) == of(seed=1) != of(seed=2)
    assert of(seed=1, shared=True) != of(seed=1)
    matrix = ForestProjection("gaussian", n_components=1).matrix(n_outputs=D, seed=1, tree=0)
    assert of(seed=1, shared=True) == of(projection=matrix)
    assert of(projection="pca", shared=True) != of(projection="pca")


def test_early_stopping_sees_all_known_labels_of_the_validation_set():
    train_rows, valid_rows = slice(200), slice(200, None)
    y, history = with_unknown(REAL), {}
    projected = ProjectedObjective(y[train_rows], valid_labels={"valid_0": y[valid_rows]})
    data = data_of(train_rows)
    booster = lightgbm.train(
        {**PARAMS, "objective": "regression", "metric": "l2"},
        data,
        200,
        valid_sets=[data_of(valid_rows, reference=data)],
        callbacks=[
            projected,
            lightgbm.early_stopping(3, verbose=False),
            lightgbm.record_evaluation(history),
        ],
    )
    (losses,) = history["valid_0"].values()
    assert list(history["valid_0"]) == ["squared_loss"]
    assert booster.best_iteration == np.argmin(losses) + 1 < len(losses)
    model = projected.model(booster)
    assert len(model.rho) == booster.best_iteration
    error = (model.predict(X[valid_rows]) - y[valid_rows])[~IS_UNKNOWN[valid_rows]]
    assert np.mean(error**2) / 2 == pytest.approx(min(losses), rel=1e-5)  # float32 margins


def test_functions_of_the_users_are_given_the_margins_of_all_outputs():
    seen = []

    def worst(margins, data):
        seen.append(margins.copy())
        return "worst", float(np.abs(margins - REAL).max()), False

    history, projected, data = {}, ProjectedObjective(REAL), data_of()
    booster = lightgbm.train(
        {**PARAMS, "objective": "regression"},
        data,
        ROUNDS,
        valid_sets=[data],
        feval=worst,
        callbacks=[projected, lightgbm.record_evaluation(history)],
    )
    assert list(history["training"]) == ["squared_loss", "worst"]
    assert_allclose(seen[-1], projected.model(booster).predict(X), rtol=1e-5)


def test_a_learning_rate_that_changes_is_that_of_its_round():
    rates = [0.1, 0.5, 0.2]
    schedule = lightgbm.reset_parameter(learning_rate=rates)
    model = trained(ProjectedObjective(REAL), 3, callbacks=[schedule])
    for number, rate in enumerate(rates):
        F = np.tile(model.start.astype(float), (N, 1))
        for tree in range(number):
            g = model.trees.predict(X, start_iteration=tree, num_iteration=1, raw_score=True)
            F += np.multiply.outer(g, model.rho[tree])
        g = model.trees.predict(X, start_iteration=number, num_iteration=1, raw_score=True)
        assert_allclose(model.rho[number], rate * (REAL - F).T @ g / (g @ g), rtol=1e-4)


def test_a_round_without_a_split_changes_nothing():
    # Half of the rounds use an output that is constant: LightGBM has no tree for these.
    y = np.column_stack([REAL[:, 0], np.full(N, 2.0)])
    projected = ProjectedObjective(y, projection="subsample", valid_labels={"valid_0": y})
    history, data = {}, data_of()
    booster = lightgbm.train(
        {**PARAMS, "objective": "regression"},
        data,
        12,
        valid_sets=[data_of(reference=data)],
        callbacks=[projected, lightgbm.record_evaluation(history)],
    )
    losses = history["valid_0"]["squared_loss"]
    n_falls = np.count_nonzero(np.diff([y.var(axis=0).mean() / 2, *losses]) < -1e-6)
    assert 0 < n_falls < 12
    model = projected.model(booster)
    assert np.count_nonzero(model.rho.any(axis=1)) == n_falls
    assert_allclose(model.predict(X)[:, 1], 2.0, rtol=1e-6)


@needs_estimators
def test_scikit_learns_wrapper_trains_the_same_model():
    projected = ProjectedObjective(REAL)
    estimator = lightgbm.LGBMRegressor(n_estimators=ROUNDS, **PARAMS)
    estimator.fit(X, REAL[:, 0], callbacks=[projected])
    found = projected.model(estimator.booster_).predict(X)
    assert_array_equal(found, trained(ProjectedObjective(REAL)).predict(X))


def test_a_booster_copied_during_training_is_an_ordinary_one():
    found = []

    def keep(env):
        found[:] = [pickle.loads(pickle.dumps(env.model)), copy.deepcopy(env.model)]

    booster = train(ProjectedObjective(REAL), callbacks=[keep])
    assert type(booster) is lightgbm.Booster
    assert not vars(booster).keys() & {"outputs"}
    for other in found:
        assert type(other) is lightgbm.Booster
        assert_array_equal(other.predict(X), booster.predict(X))


def test_related_outputs_are_predicted_better_than_by_a_model_of_each():
    # joly2016, figure 6.1b: outputs that differ by noise alone, here after as many rounds.
    data = make_friedman1_group(1300, seed=1)
    rows, test = slice(300), slice(300, None)
    params = {**PARAMS, "num_leaves": 4, "learning_rate": 0.1, "objective": "regression"}
    alone = [
        lightgbm.train(params, lightgbm.Dataset(data.X[rows], y), 200).predict(data.X[test])
        for y in data.y[rows].T
    ]
    projected = ProjectedObjective(data.y[rows], projection="subsample")
    booster = lightgbm.train(
        params, lightgbm.Dataset(data.X[rows], data.y[rows, 0]), 200, callbacks=[projected]
    )
    errors = [
        np.mean((prediction - data.expected_y[test]) ** 2)
        for prediction in (projected.model(booster).predict(data.X[test]), np.transpose(alone))
    ]
    assert errors[0] < 0.9 * errors[1]


# ---- wrong use -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"boosting": "dart"}, "boosting=dart does not go with"),
        ({"linear_tree": True}, "linear_tree=1 does not go with"),
        ({"monotone_constraints": [1, 0, 0, 0, 0]}, "monotone_constraints=1,0,0,0,0 does not"),
        ({"objective": "multiclass", "num_class": 3}, "num_class=3 does not go with"),
        ({"objective": "poisson"}, "objective='poisson' is not supported.*regression, "),
        ({"objective": "binary", "scale_pos_weight": 2.0}, "scale_pos_weight=2 does not go with"),
        ({"reg_sqrt": True}, "reg_sqrt=1 does not go with"),
    ],
)
def test_parameters_that_do_not_go_with_it_are_refused(params, message):
    with pytest.raises(UnsupportedError, match=message):
        train(ProjectedObjective(BINARY), **params)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": REAL[:9]}, r"labels has shape \(9, 5\), but must have \(300, 5\)"),
        ({"labels": np.full((N, D), np.inf)}, "labels is inf at row 0, column 0"),
        ({"labels": np.zeros((N, D, 1))}, r"labels has shape \(300, 5, 1\)"),
        ({"labels": [["a"]]}, "labels has dtype"),
        ({"labels": REAL, "weight": np.ones(9)}, r"weight has shape \(9,\)"),
        ({"labels": REAL, "weight": -np.ones((N, D))}, "weight is -1 at row 0, column 0"),
        ({"labels": REAL, "weight": np.zeros(N)}, "weight is zero in every row"),
    ],
)
def test_labels_and_weights_that_do_not_fit_are_refused(given, message):
    with pytest.raises(DataError, match=message):
        train(ProjectedObjective(**given))


def test_a_data_set_for_which_lightgbm_grows_no_trees_is_refused():
    with pytest.raises(DataError, match="all alike.*cross_entropy"):
        train(ProjectedObjective(BINARY), data=lightgbm.Dataset(X, X[:, 0] * 0), objective="binary")


def test_labels_outside_the_domain_are_refused():
    with pytest.raises(DataError, match="labels must be from 0 to 1"):
        train(ProjectedObjective(REAL), objective="binary")


def test_validation_labels_need_their_set():
    with pytest.raises(ParameterError, match="'valid' but|'valid', but the validation sets are"):
        train(ProjectedObjective(REAL, valid_labels={"valid": REAL}))
    data = data_of()
    with pytest.raises(DataError, match=r"valid_labels\['valid_0'\] has shape \(9, 5\)"):
        lightgbm.train(
            PARAMS,
            data,
            1,
            valid_sets=[data_of(reference=data)],
            callbacks=[ProjectedObjective(REAL, valid_labels={"valid_0": REAL[:9]})],
        )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"projection": "random"}, "projection must be .*found 'random'"),
        ({"projection": None}, "projection is None"),
        ({"seed": 2**64}, "seed must be an integer .*found 18446744073709551616"),
    ],
)
def test_projections_that_make_no_sense_are_refused_at_once(wrong, message):
    with pytest.raises(ParameterError, match=message):
        ProjectedObjective(REAL, **wrong)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [(np.eye(4), r"must have \(n_components, 5\)"), (np.eye(5), "projection has 5 components")],
)
def test_a_matrix_of_another_shape_is_refused(matrix, message):
    with pytest.raises(ParameterError, match=message):
        train(ProjectedObjective(REAL, projection=matrix))


def test_functions_as_objective_are_refused():
    def squared(margins, data):
        return margins - REAL[:, 0], np.ones(N)

    with pytest.raises(UnsupportedError, match="objective='custom'|objective is a function"):
        train(ProjectedObjective(REAL), objective=squared)
    with pytest.raises(ParameterError, match="callbacks"):
        lightgbm.train({**PARAMS, "objective": ProjectedObjective(REAL)}, data_of(), 1)


def test_start_scores_of_the_data_are_refused():
    with pytest.raises(UnsupportedError, match="init_score"):
        train(ProjectedObjective(REAL), data=data_of(init_score=np.ones(N)))


def test_a_model_to_continue_is_refused():
    first = train(ProjectedObjective(REAL))
    with pytest.raises(UnsupportedError, match="cannot continue a model"):
        lightgbm.train(PARAMS, data_of(), 2, init_model=first, callbacks=[ProjectedObjective(REAL)])


def test_it_is_alone_in_taking_over_a_training():
    for other in (ProjectedObjective(REAL), TaskSplit(np.zeros(N, int))):
        with pytest.raises(UnsupportedError):
            train(ProjectedObjective(REAL), callbacks=[other])


def test_cross_validation_is_refused():
    with pytest.raises(UnsupportedError, match="lightgbm.cv"):
        lightgbm.cv(PARAMS, data_of(), 2, stratified=False, callbacks=[ProjectedObjective(REAL)])


def test_a_model_needs_the_booster_of_the_training():
    projected = ProjectedObjective(REAL)
    other = lightgbm.train({**PARAMS, "objective": "regression"}, lightgbm.Dataset(X, X[:, 0]), 9)
    with pytest.raises(DataError, match="had 0: give the booster"):
        projected.model(other)
    train(projected)
    with pytest.raises(DataError, match="has 9 trees, but the last training .* had 5"):
        projected.model(other)


def test_an_output_that_does_not_exist_is_refused():
    model = trained(ProjectedObjective(REAL))
    for output in (-1, D):
        with pytest.raises(ParameterError, match="outputs are 0 to 4"):
            model.booster(output)
