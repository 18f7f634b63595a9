# SPDX-License-Identifier: Apache-2.0
"""MLflow logs our training and our models, and serves them."""

import os

import numpy as np
import pytest
from interop.backends import LABELS, NUMBERS, SHOPS, TASK

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # tests use no network
mlflow = pytest.importorskip("mlflow", reason="pip install 'mtboost[interop]'")

pytestmark = [
    # MLflow's tables are defined by what SQLAlchemy 2.1 deprecates.
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated"),
    # From the import of mlflow.pyfunc, which says so about MLflow's types; in colour.
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType:UserWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def tracking(tmp_path_factory):
    """A separate experiment in a new database."""
    folder = tmp_path_factory.mktemp("mlflow")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'runs.db'}")
    mlflow.set_experiment(experiment_id=mlflow.create_experiment("tests", folder.as_uri()))
    yield
    mlflow.set_tracking_uri(before)


@pytest.fixture
def flavor(backend):
    module = getattr(mlflow, backend.name)
    yield module
    module.autolog(disable=True)


def test_autolog_records_training_with_tasks(backend, flavor):
    expected, history = backend.train_watched(0.2)
    flavor.autolog()
    with mlflow.start_run() as run:
        booster, _ = backend.train_watched(0.2)
    client = mlflow.MlflowClient()
    logged = client.get_metric_history(run.info.run_id, backend.watched_metric)
    assert [metric.value for metric in logged] == history
    params = client.get_run(run.info.run_id).data.params
    assert float(params["learning_rate"]) == 0.2
    (model,) = mlflow.search_logged_models(
        filter_string=f"source_run_id = '{run.info.run_id}'", output_format="list"
    )
    found = flavor.load_model(model.model_uri)
    for each in (booster, found):
        assert type(each) is type(expected)
        assert (
            backend.predictions(each, NUMBERS).tolist()
            == backend.predictions(expected, NUMBERS).tolist()
        )


def test_autolog_makes_a_run_of_each_training_in_fit_and_changes_nothing(backend, flavor):
    expected = backend.fit_model(NUMBERS, "yes or no", refit=False)
    n_runs = len(mlflow.search_runs(output_format="list"))
    flavor.autolog(log_models=False)
    found = backend.fit_model(NUMBERS, "yes or no", refit=False)
    n_trainings = len(mlflow.search_runs(output_format="list")) - n_runs
    # The common model, and specific models that the library trains: not those of small tasks.
    assert n_trainings == 1 + len(found.tasks) if backend.name == "lightgbm" else n_trainings >= 1
    assert (
        found.predict(NUMBERS, task=TASK).tolist() == expected.predict(NUMBERS, task=TASK).tolist()
    )


def test_a_logged_booster_is_served(example, backend, flavor):
    with mlflow.start_run():
        # Given requirements are not looked for by loading the model in another process.
        info = flavor.log_model(example.booster, name="model", pip_requirements=[backend.name])
    expected = backend.predictions(example.booster, example.table)
    found = flavor.load_model(info.model_uri)
    assert backend.predictions(found, example.table).tolist() == expected.tolist()
    served = mlflow.pyfunc.load_model(info.model_uri)
    np.testing.assert_array_equal(served.predict(example.table), expected)


@pytest.mark.parametrize("format", ["skops", "cloudpickle"])
def test_a_logged_estimator_is_served(backend, format):
    estimator = backend.estimator().fit(SHOPS, LABELS["yes or no"])
    trusted = [
        "mtboost.estimators.multi_task.classifier.MultiTaskClassifier",
        "mtboost.model.model.MultiTaskModel",
        "mtboost.model.parts.boosters.Boosters",
        "mtboost.model.stages.common_trees.CommonTrees",
        "mtboost.trees.pooled_leaves.PooledTrees",
        f"{type(estimator.model_.common_trees.backend).__module__}."
        f"{type(estimator.model_.common_trees.backend).__name__}",
        "mtboost.model.parts.task_report.TaskReport",
        "mtboost.base.tables.Columns",
        f"{type(estimator.booster('x')).__module__}.Booster",
        "collections.OrderedDict",  # in those of LightGBM
    ]
    with mlflow.start_run():
        info = mlflow.sklearn.log_model(
            estimator,
            name="model",
            pip_requirements=["mtboost"],
            serialization_format=format,
            skops_trusted_types=trusted if format == "skops" else None,
        )
    found = mlflow.sklearn.load_model(info.model_uri)
    assert found.predict_proba(SHOPS).tolist() == estimator.predict_proba(SHOPS).tolist()
    served = mlflow.pyfunc.load_model(info.model_uri)
    np.testing.assert_array_equal(served.predict(SHOPS), estimator.predict(SHOPS))
