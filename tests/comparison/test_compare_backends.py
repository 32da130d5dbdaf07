"""A PyTorch network, a Keras one and a random forest on the same folds are compared like results of one backend."""

import numpy as np
import pytest

import delira
from delira.data_loading import BaseDataManager
from delira.metrics import AurocMetric, accuracy
from delira.training import KFoldResult, Parameters, SklearnExperiment

METRICS = {"accuracy": accuracy, "auroc": AurocMetric(classes=(0, 1))}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def cross_validate(experiment, data):
    return experiment.kfold(data, METRICS, num_splits=4, split_type="stratified", shuffle=True, random_seed=0)


def settings(**training):
    return Parameters({"model": {}, "training": {"num_epochs": 8, "verbose": False, "logging_type": None, **training}})


def of_torch(path, data):
    torch = pytest.importorskip("torch", reason="one of the three is of the package 'torch', which is not installed")
    from delira.models import AbstractPyTorchNetwork
    from delira.training import PyTorchExperiment

    class Net(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

        def forward(self, x):
            return {"pred": self.layers(x)}

    training = {"losses": {"ce": torch.nn.CrossEntropyLoss()}, "optimizer_cls": torch.optim.Adam}
    return PyTorchExperiment(settings(**training, optimizer_params={"lr": 0.02}), Net, name="torch", save_path=path)


def of_keras(path, data):
    keras = pytest.importorskip("keras", reason="one of the three is of the package 'keras', which is not installed")
    from delira.models import AbstractTfNetwork
    from delira.training import TfExperiment

    class Net(AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.head = keras.layers.Dense(2)

        def call(self, x):
            return {"pred": self.head(x)}

    training = {
        "losses": {"ce": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
        "optimizer_cls": keras.optimizers.Adam,
        "optimizer_params": {"learning_rate": 0.05},
    }
    return TfExperiment(settings(**training), Net, name="keras", save_path=path)


def of_sklearn(path, data):
    from sklearn.ensemble import RandomForestClassifier

    return SklearnExperiment.of(RandomForestClassifier(20), save_path=path, name="forest", verbose=False)


def test_results_of_three_backends_are_compared(tmp_path):
    pytest.importorskip("skops", reason="estimators are stored by the package 'skops', which is not installed")
    generator = np.random.default_rng(0)
    features = generator.normal(size=(160, 5)).astype(np.float32)
    label = np.int64(features[:, 0] + features[:, 1] ** 2 - 1 + 0.5 * generator.normal(size=160) > 0)
    data = BaseDataManager({"data": features, "label": label}, batch_size=20)
    makers = (of_torch, of_keras, of_sklearn)
    live = [cross_validate(make(tmp_path, data), data) for make in makers]

    found = delira.compare(live, baseline="forest")
    assert found.names == ("torch", "keras", "forest")
    assert [one.label for one in found.of("accuracy")] == ["torch − forest", "keras − forest"]
    for one in found.differences:
        assert np.isfinite([one.mean, one.interval.low, one.tests["corrected t"].adjusted]).all()
        assert np.isfinite(one.tests["McNemar" if one.metric == "accuracy" else "DeLong"].p_value)
    assert found.aligned.n_cases == 160

    stored = delira.compare([tmp_path / name for name in ("torch", "keras", "forest")], baseline="forest")
    assert [one.folds.tolist() for one in stored.differences] == [one.folds.tolist() for one in found.differences]
    assert isinstance(stored.results[0], KFoldResult)
    page = stored.to_html(tmp_path / "compared.html").read_text(encoding="utf-8")
    assert "forest" in page
    assert "What may be said" in page
