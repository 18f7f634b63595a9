# SPDX-License-Identifier: Apache-2.0
"""The training loop stays XGBoost's: callbacks, metrics, continuation and wrappers behave as ever.

With the plain score everything seen or saved equals stock training to the last bit; with the other
scores the finished booster is an ordinary one.
"""

import copy
import json
import pickle

import numpy as np
import pytest
import xgboost
from model_documents import assert_same_model, document, trees
from processes import run_script
from stock_training import N_TRAIN, TASK, XGBOOST, X, Y, make_labels
from xgboost.callback import (
    EarlyStopping,
    EvaluationMonitor,
    LearningRateScheduler,
    TrainingCallback,
    TrainingCheckPoint,
)

import mtboost
from mtboost.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")

PARAMS, train, matrices = XGBOOST.params, XGBOOST.train, XGBOOST.data
task_split, assert_parity = XGBOOST.task_split, XGBOOST.assert_parity


@pytest.mark.parametrize(
    "params", [{}, {"objective": "binary:logistic"}, {"eval_metric": "mae"}], ids=repr
)
@pytest.mark.parametrize("obj", [None, lambda margins, matrix: (margins, margins * 0 + 1)])
def test_without_evals_the_configuration_is_that_of_stock_training(params, obj):
    params = {"nthread": 1, **params}
    found, expected = (
        xgboost.train(params, matrices()[0], 2, obj=obj, callbacks=callbacks)
        for callbacks in ([task_split()], [])
    )
    assert json.loads(expected.save_config())["learner"]["metrics"]
    assert found.save_config() == expected.save_config()


# ---- callbacks of XGBoost -------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["logloss", "auc", "error@0.6", ["auc", "logloss"]])
@pytest.mark.parametrize("save_best", [False, True])
def test_early_stopping_stops_at_the_same_round(save_best, metric):
    stock = assert_parity(
        lambda: [EarlyStopping(rounds=3, save_best=save_best)],
        params={"eval_metric": metric, "eta": 1.0},
        n_rounds=40,
    )
    assert stock.num_boosted_rounds() < 40
    assert (stock.num_boosted_rounds() == stock.best_iteration + 1) == save_best


def test_early_stopping_watches_what_it_is_told_to():
    options = {"data_name": "train", "metric_name": "auc", "maximize": True, "min_delta": 0.01}
    params = {"eval_metric": ["auc", "logloss"]}
    assert_parity(lambda: [EarlyStopping(rounds=2, **options)], params=params, n_rounds=40)


def test_the_argument_early_stopping_rounds():
    stock = assert_parity(early_stopping_rounds=2, params={"eta": 1.0}, n_rounds=40)
    assert stock.num_boosted_rounds() < 40


@pytest.mark.parametrize(
    ("make_callbacks", "verbose_eval"),
    [
        (list, True),
        (list, 3),
        (lambda: [EvaluationMonitor(period=2)], False),
        (lambda: [EvaluationMonitor(rank=0), EarlyStopping(rounds=2)], False),
    ],
)
def test_the_same_lines_are_printed(capfd, make_callbacks, verbose_eval):
    def printed(split):
        train(split + make_callbacks(), verbose_eval=verbose_eval, n_rounds=7)
        return capfd.readouterr()

    expected = printed([])
    assert "valid-logloss" in expected.out
    assert printed([task_split()]) == expected


@pytest.mark.parametrize("rates", [[0.5, 0.4, 0.3, 0.2, 0.1], lambda epoch: 0.8**epoch])
def test_learning_rate_schedules(rates):
    stock = assert_parity(lambda: [LearningRateScheduler(rates)], n_rounds=5)
    assert trees(stock)[1:] != trees(train(n_rounds=5)[0])[1:]


@pytest.mark.parametrize("as_pickle", [False, True])
def test_checkpoints_hold_the_same_models(tmp_path, as_pickle):
    for folder in ("stock", "first", "last"):
        (tmp_path / folder).mkdir()

    def check_points(folder):
        return TrainingCheckPoint(tmp_path / folder, interval=2, as_pickle=as_pickle)

    def load(path):
        if not as_pickle:
            return xgboost.Booster(model_file=path)
        assert b"mtboost" not in path.read_bytes(), "unpickled without mtboost"
        return pickle.loads(path.read_bytes())

    train([check_points("stock")], n_rounds=7)
    train([task_split(), check_points("first")], n_rounds=7)
    train([check_points("last"), task_split()], n_rounds=7)
    names = sorted(path.name for path in (tmp_path / "stock").iterdir())
    assert len(names) == 3
    for folder in ("first", "last"):
        assert sorted(path.name for path in (tmp_path / folder).iterdir()) == names
        for name in names:
            found, expected = load(tmp_path / folder / name), load(tmp_path / "stock" / name)
            assert type(found) is xgboost.Booster
            assert_same_model(found, expected)


RESUMED = {
    "plain": ("plain", {}),
    "entropy": ("entropy", {}),
    "variance": ("variance", {}),
    "sampled": ("entropy", {"subsample": 0.6, "colsample_bynode": 0.5, "seed": 3}),
    "classes": ("entropy", {"objective": "multi:softprob", "eval_metric": [], "num_class": 3}),
}


@pytest.mark.parametrize(("score", "params"), RESUMED.values(), ids=RESUMED)
def test_resuming_from_a_checkpoint_gives_the_identical_model(tmp_path, score, params):
    point = TrainingCheckPoint(tmp_path, interval=2)
    whole, _ = train([task_split(score), point], params=params, n_rounds=7)
    resumed, _ = train(
        [task_split(score)], params=params, n_rounds=4, xgb_model=tmp_path / "model_2.ubj"
    )
    assert resumed.num_boosted_rounds() == 7
    assert_same_model(resumed, whole)


# ---- callbacks of a user --------------------------------------------------------------------


class Observer(TrainingCallback):
    """Asks the model for everything it can tell, each round."""

    def __init__(self):
        super().__init__()
        self.valid = matrices()[1]
        self.seen = []

    def before_iteration(self, model, epoch, evals_log):
        self.seen.append((epoch, model.num_boosted_rounds(), model.attr("note"), dict(evals_log)))
        return False

    def after_iteration(self, model, epoch, evals_log):
        assert isinstance(model, xgboost.Booster)
        # Copies compute other margins than the model itself if anything is lost on the way.
        copies = [
            model.copy(),
            copy.copy(model),
            copy.deepcopy(model),
            pickle.loads(pickle.dumps(model)),
            model[: epoch + 1],
        ]
        assert [type(each) for each in copies] == [xgboost.Booster] * len(copies)
        self.seen += [each.predict(self.valid).tolist() for each in copies]
        self.seen += [
            model.predict(self.valid).tolist(),
            model.predict(self.valid, output_margin=True).tolist(),
            model.predict(self.valid, pred_leaf=True).tolist(),
            model.predict(self.valid, pred_contribs=True).tolist(),
            model.predict(self.valid, iteration_range=(0, 1)).tolist(),
            model.inplace_predict(X[N_TRAIN:]).tolist(),
            model.get_dump(with_stats=True),
            model.get_score(importance_type="gain"),
            model.trees_to_dataframe().to_csv(),
            model.eval(self.valid),
            model.num_boosted_rounds(),
            model.num_features(),
            model.feature_names,
            document(model),
            model.attributes(),
        ]
        model.set_attr(note=f"seen in round {epoch}")
        return False


def test_a_users_callback_sees_the_model_of_every_round():
    observers = []

    def make_callbacks():
        observers.append(Observer())
        return observers[-1:]

    assert_parity(make_callbacks, n_rounds=4)
    expected, *others = (observer.seen for observer in observers)
    for seen in others:
        assert seen == expected


class Changing(TrainingCallback):
    """Changes parameters on the way, keeps an attribute, and ends training early."""

    def before_iteration(self, model, epoch, evals_log):
        model.set_param({"max_depth": 2 + epoch})
        model.set_param("reg_lambda", 1.0 + epoch)
        return False

    def after_iteration(self, model, epoch, evals_log):
        model.set_attr(last=str(epoch), first=None if epoch else "0")
        return epoch == 4


def test_a_users_callback_may_change_parameters_and_end_training():
    stock = assert_parity(lambda: [Changing()])
    assert stock.num_boosted_rounds() == 5
    assert stock.attributes() == {"last": "4"}


class Numbered(TrainingCallback):
    """Writes its number down at each call; the callback numbered 5 ends the third round."""

    def __init__(self, number, log):
        super().__init__()
        self.number, self.log = number, log

    def before_training(self, model):
        self.log.append(("begin", self.number))
        return model

    def before_iteration(self, model, epoch, evals_log):
        self.log.append((f"before {epoch}", self.number))
        return False

    def after_iteration(self, model, epoch, evals_log):
        self.log.append((f"after {epoch}", self.number))
        return epoch == 2 and self.number == 5

    def after_training(self, model):
        self.log.append(("end", self.number))
        return model


@pytest.mark.parametrize("function", ["fit", "train"])
def test_callbacks_are_called_in_their_order(function):
    # XGBoost 3.0 keeps callbacks in a set: twenty of them are in order once in 20! times.
    log = []
    callbacks = [Numbered(number, log) for number in range(20)]
    callbacks.insert(10, callbacks[3])  # as in XGBoost: each once
    rows = X[:N_TRAIN], make_labels("reg:squarederror")[:N_TRAIN]
    task = TASK[:N_TRAIN]
    if function == "fit":
        options = {"validation_fraction": 0, "n_threads": 1, "strategy": "two-stage"}
        mtboost.fit(*rows, task=task, callbacks=callbacks, **options)
    else:
        mtboost.train({"nthread": 1}, mtboost.Dataset(*rows, task=task), callbacks=callbacks)
    calls = ["begin", "before 0", "after 0", "before 1", "after 1", "before 2"]
    expected = [(call, number) for call in calls for number in range(20)]
    expected += [("after 2", number) for number in range(6)]
    expected += [("end", number) for number in range(20)]
    assert log == expected


# ---- objectives and metrics of a user -------------------------------------------------------


def logistic(margins, matrix):
    p = 1 / (1 + np.exp(-margins))
    return p - matrix.get_label(), p * (1 - p)


def softmax(margins, matrix):
    p = np.exp(margins) / np.exp(margins).sum(axis=1, keepdims=True)
    return p - np.eye(3)[matrix.get_label().astype(int)], 2 * p * (1 - p)


def share_above(predictions, matrix):
    return [("above0", float((predictions > 0).mean())), ("largest", float(predictions.max()))]


@pytest.mark.parametrize("metric", [None, share_above])
def test_a_users_objective_and_metric(metric):
    assert_parity(obj=logistic, custom_metric=metric, early_stopping_rounds=3)


RESPONSES = {
    "binary:logistic": {},
    "binary:logitraw": {},
    "binary:hinge": {},
    "reg:squarederror": {},
    "reg:absoluteerror": {},
    "count:poisson": {},
    "reg:quantileerror": {"quantile_alpha": [0.2, 0.8]},
    "multi:softprob": {"num_class": 3},
    "multi:softmax": {"num_class": 3},
}


@pytest.mark.parametrize("objective", RESPONSES)
def test_a_users_metric_gets_the_responses_of_every_round(objective):
    # Not those of the start, which XGBoost remembers by matrix.
    params = {"objective": objective, "eval_metric": [], **RESPONSES[objective]}
    assert_parity(params=params, custom_metric=share_above, n_rounds=4)


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob"])
def test_metrics_of_rows_with_base_margins(objective):
    params = {"objective": objective, "eval_metric": [], **RESPONSES[objective]}
    start = np.random.default_rng(1).normal(size=(len(Y), params.get("num_class", 1)))
    data = matrices(objective, base_margin=start)
    assert_parity(params=params, data=data, custom_metric=share_above, n_rounds=4)
    kept = data[1].get_base_margin().reshape(-1, start.shape[1])
    np.testing.assert_array_equal(kept, start[N_TRAIN:].astype(np.float32))


@pytest.mark.parametrize("n_rounds", [0, 1])
def test_no_round_or_one(n_rounds):
    assert_parity(n_rounds=n_rounds)


def test_a_users_objective_of_several_classes():
    params = {"objective": "multi:softprob", "num_class": 3, "eval_metric": "mlogloss"}
    assert_parity(params=params, obj=softmax, n_rounds=4)


needs_objectives = pytest.mark.skipif(
    not hasattr(xgboost, "objective"), reason="XGBoost has objective classes from 3.2 on"
)


def make_objective(base, split_gradient=None):
    class Logistic(base):
        def __init__(self):
            self.rounds = []

        def __call__(self, iteration, y_pred, dtrain):
            self.rounds.append(iteration)
            return logistic(y_pred, dtrain)

        def split_grad(self, iteration, grad, hess):
            return split_gradient

    return Logistic()


@needs_objectives
@pytest.mark.parametrize("name", ["Objective", "TreeObjective"])
def test_an_objective_object_is_told_the_round(name):
    base = getattr(xgboost.objective, name)
    ours, stock = make_objective(base), make_objective(base)
    expected, _ = train(obj=stock, n_rounds=4)
    found, _ = train([task_split()], obj=ours, n_rounds=4)
    assert_same_model(found, expected)
    assert ours.rounds == stock.rounds == [0, 1, 2, 3]


@needs_objectives
def test_an_objective_with_split_gradients_is_refused():
    gradients = np.zeros((N_TRAIN, 1)), np.ones((N_TRAIN, 1))
    objective = make_objective(xgboost.objective.TreeObjective, gradients)
    with pytest.raises(UnsupportedError, match="split_grad"):
        train([task_split()], obj=objective)


# ---- continuation ---------------------------------------------------------------------------

CONTINUED = {
    "one output": {},
    "classes": {"objective": "multi:softprob", "num_class": 3, "eval_metric": "mlogloss"},
    "absolute error": {"objective": "reg:absoluteerror", "eval_metric": "mae"},
    "one level": {
        "objective": "reg:quantileerror", "quantile_alpha": 0.8, "eval_metric": "quantile",
    },
    "three levels": {
        "objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9],
        "eval_metric": "quantile",
    },
}  # fmt: skip


@pytest.mark.parametrize("params", CONTINUED.values(), ids=CONTINUED)
@pytest.mark.parametrize("how", ["booster", "bytes", "file"])
def test_training_goes_on_from_a_stock_model(tmp_path, how, params):
    stock, _ = train(params=params, n_rounds=3)
    stock.save_model(tmp_path / "model.ubj")
    before = document(stock)
    start = {"booster": stock, "bytes": stock.save_raw("ubj"), "file": tmp_path / "model.ubj"}[how]
    changed = {**params, "eta": 0.1, "max_depth": 4}
    assert_parity(params=changed, xgb_model=start, n_rounds=3, early_stopping_rounds=2)
    assert document(stock) == before, "the model that is continued is left as it was"


# ---- scikit-learn wrappers ------------------------------------------------------------------

WRAPPERS = {
    "regressor": (xgboost.XGBRegressor, Y),
    "two classes": (xgboost.XGBClassifier, Y > 0),
    "three classes": (xgboost.XGBClassifier, np.digitize(Y, [-1, 1])),
}


@pytest.mark.parametrize("stopping", [{}, {"early_stopping_rounds": 2}])
@pytest.mark.parametrize(("wrapper", "labels"), WRAPPERS.values(), ids=WRAPPERS)
def test_wrappers_take_the_callback(wrapper, labels, stopping):
    def fit(callbacks):
        options = {"n_estimators": 12, "max_depth": 3, "learning_rate": 0.8, "n_jobs": 1}
        estimator = wrapper(callbacks=callbacks, **options, **stopping)
        eval_set = [(X[N_TRAIN:], labels[N_TRAIN:])]
        return estimator.fit(X[:N_TRAIN], labels[:N_TRAIN], eval_set=eval_set, verbose=False)

    ours, stock = fit([task_split()]), fit(None)
    assert_same_model(ours.get_booster(), stock.get_booster())
    assert ours.evals_result() == stock.evals_result()
    np.testing.assert_array_equal(ours.predict(X), stock.predict(X))
    np.testing.assert_array_equal(ours.feature_importances_, stock.feature_importances_)
    if stopping:
        assert ours.best_iteration == stock.best_iteration
    if wrapper is xgboost.XGBClassifier:
        np.testing.assert_array_equal(ours.predict_proba(X), stock.predict_proba(X))


# ---- the finished booster -------------------------------------------------------------------


@pytest.fixture(params=["entropy", "variance"])
def finished(request):
    return train([task_split(request.param)], n_rounds=6)[0]


def test_importances_are_the_sums_over_the_nodes(finished):
    table = finished.trees_to_dataframe()
    nodes = table[table["Feature"] != "Leaf"]
    total = nodes.groupby("Feature")[["Gain", "Cover"]].sum()
    scores = {
        kind: finished.get_score(importance_type=kind)
        for kind in ("weight", "total_gain", "total_cover", "gain", "cover")
    }
    assert scores["weight"] == nodes["Feature"].value_counts().to_dict()
    # The table holds six digits of each float32, the scores all of them.
    for kind, column in (("total_gain", "Gain"), ("total_cover", "Cover")):
        assert scores[kind] == pytest.approx(total[column].to_dict(), rel=1e-5)
    for feature, n_nodes in scores["weight"].items():
        mean = scores["total_gain"][feature] / n_nodes
        assert scores["gain"][feature] == pytest.approx(mean, rel=1e-6)
        mean = scores["total_cover"][feature] / n_nodes
        assert scores["cover"][feature] == pytest.approx(mean, rel=1e-6)


def test_the_cover_of_a_node_is_that_of_its_children(finished):
    for tree in trees(finished):
        cover = np.array(tree["sum_hessian"])
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        inner = left >= 0
        assert inner.any()
        # float32 roundings of double sums
        np.testing.assert_allclose(
            cover[inner], cover[left[inner]] + cover[right[inner]], rtol=1e-6
        )


def test_shap_values_add_up_to_the_margin(finished):
    _, valid = matrices()
    margins = finished.predict(valid, output_margin=True)
    # XGBoost adds float32 path by path: about 1e-6 after 6 trees (FINDINGS: 1.4e-6).
    for options in ({"pred_contribs": True}, {"pred_contribs": True, "approx_contribs": True}):
        sums = finished.predict(valid, **options).sum(axis=1)
        np.testing.assert_allclose(sums, margins, atol=1e-5)
    interactions = finished.predict(valid, pred_interactions=True).sum(axis=(1, 2))
    np.testing.assert_allclose(interactions, margins, atol=1e-5)


def test_a_slice_is_the_model_of_fewer_rounds(finished):
    _, valid = matrices()
    for n_rounds in (1, 4):
        sliced = finished[:n_rounds]
        assert sliced.num_boosted_rounds() == n_rounds
        expected = finished.predict(valid, iteration_range=(0, n_rounds))
        np.testing.assert_array_equal(sliced.predict(valid), expected)


def test_a_saved_booster_loads_in_a_process_without_mtboost(finished, tmp_path):
    names = ("model.ubj", "model.json")
    for name in names:
        finished.save_model(tmp_path / name)
        assert_same_model(xgboost.Booster(model_file=tmp_path / name), finished)
    np.save(tmp_path / "X.npy", X)
    script = (
        "import sys, numpy, xgboost\n"
        "matrix = xgboost.DMatrix(numpy.load('X.npy'))\n"
        f"for name in {names}:\n"
        "    booster = xgboost.Booster(model_file=name)\n"
        "    numpy.save(f'{name}.npy', booster.predict(matrix, output_margin=True))\n"
        "assert 'mtboost' not in sys.modules\n"
    )
    run_script(script, cwd=tmp_path)
    expected = finished.predict(xgboost.DMatrix(X), output_margin=True)
    for name in names:
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), expected)


def test_stock_training_goes_on_from_a_multi_task_model(finished):
    longer, results = train(xgb_model=finished, n_rounds=4)
    assert trees(longer)[:6] == trees(finished)
    assert longer.num_boosted_rounds() == 10
    # More rounds of Newton steps on the same rows: the training loss falls.
    assert np.all(np.diff(results["train"]["logloss"]) < 0)


# ---- refused --------------------------------------------------------------------------------


def test_another_device_is_refused_by_its_name(monkeypatch):
    # A machine without a GPU turns device into cpu; the configuration of one that has it says cuda.
    save_config = xgboost.Booster.save_config
    monkeypatch.setattr(
        xgboost.Booster,
        "save_config",
        lambda self: save_config(self).replace('"device":"cpu"', '"device":"cuda:0"'),
    )
    with pytest.raises(UnsupportedError, match="device='cuda:0'.*on device='cpu'"):
        train([task_split("entropy")])


def test_several_machines_are_refused(monkeypatch):
    monkeypatch.setattr(xgboost.collective, "get_world_size", lambda: 2)
    with pytest.raises(UnsupportedError, match="several machines"):
        train([task_split()])


def test_cross_validation_is_refused():
    rounds = []
    callbacks = [task_split(), XGBOOST.library.callback(rounds.append)]
    with pytest.raises(UnsupportedError, match=r"xgboost\.cv.*xgboost\.train"):
        xgboost.cv(PARAMS, xgboost.DMatrix(X, Y > 0), 3, callbacks=callbacks)
    assert rounds == []


def test_a_parameter_that_becomes_unsupported_on_the_way_is_refused():
    class Dart(TrainingCallback):
        def before_iteration(self, model, epoch, evals_log):
            if epoch == 1:
                model.set_param({"tree_method": "approx"})
            return False

    with pytest.raises(UnsupportedError, match="tree_method='approx'"):
        train([task_split(), Dart()])
