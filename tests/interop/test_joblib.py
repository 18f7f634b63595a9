# SPDX-License-Identifier: Apache-2.0
"""joblib dumps our models and boosters, and hands them to other processes."""

import joblib
import pytest
from interop.backends import LABELS, NUMBERS, SHOPS, TASK
from joblib import Parallel, delayed


@pytest.fixture
def ways_to_predict(backend):
    """Calls that predict: by booster, model and estimator."""
    model = backend.fit_model(NUMBERS, "yes or no")
    estimator = backend.estimator().fit(SHOPS, LABELS["yes or no"])
    array = NUMBERS.to_numpy()
    return [
        (backend.predict_array(model.booster("x")), (array,), {}),
        (model.predict, (NUMBERS,), {"task": TASK}),
        (estimator.predict_proba, (SHOPS,), {}),
    ]


def test_other_processes_predict_the_same(ways_to_predict):
    found = Parallel(n_jobs=2)(
        delayed(predict)(*args, **kwargs) for predict, args, kwargs in ways_to_predict
    )
    for predictions, (predict, args, kwargs) in zip(found, ways_to_predict, strict=True):
        assert predictions.tolist() == predict(*args, **kwargs).tolist()


@pytest.mark.parametrize(
    ("compress", "mmap_mode"), [(0, None), (0, "r"), (("zlib", 3), None), (("lzma", 1), None)]
)
def test_files_hold_the_same_models(ways_to_predict, tmp_path, compress, mmap_mode):
    joblib.dump([predict for predict, _, _ in ways_to_predict], tmp_path / "models", compress)
    found = joblib.load(tmp_path / "models", mmap_mode)
    for predict_again, (predict, args, kwargs) in zip(found, ways_to_predict, strict=True):
        assert predict_again(*args, **kwargs).tolist() == predict(*args, **kwargs).tolist()
