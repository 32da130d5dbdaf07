"""What belongs to another framework is refused with its name, before training."""

import numpy as np
import pytest

import delira.training
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, NetworkError
from delira.testing import ToyNetwork, ToyTrainer, mean_squared_error

torch = pytest.importorskip("torch")

from delira.models import AbstractPyTorchNetwork  # noqa: E402 - after the skip


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(3, 1)

    def forward(self, x):
        return {"pred": self.head(x)}


SETTINGS = {"losses": {"mse": torch.nn.MSELoss()}, "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.1}}


def trainer(path, **settings):
    return delira.training.PyTorchNetworkTrainer(Net(), path, **{**SETTINGS, **settings})


@pytest.mark.parametrize(
    ("setting", "make", "says"),
    [
        ("optimizer_cls", "keras.optimizers:Adam", "optimizer_cls is Adam of the package 'keras'"),
        ("optimizer_cls", "optax:adam", "optimizer_cls is adam of the package 'optax'"),
        (
            "lr_scheduler_cls",
            "keras.optimizers.schedules:CosineDecay",
            "lr_scheduler_cls is CosineDecay of the package",
        ),
    ],
)
def test_an_optimizer_of_another_framework(tmp_path, setting, make, says):
    module, name = make.split(":")
    value = getattr(pytest.importorskip(module), name)
    with pytest.raises(ConfigError, match=says):
        trainer(tmp_path, **{setting: value})


def test_a_loss_of_another_framework_function_or_object(tmp_path):
    keras = pytest.importorskip("keras")
    for loss in (keras.losses.mean_squared_error, keras.losses.MeanSquaredError()):
        with pytest.raises(ConfigError, match=r"losses\['mse'\] is \w+ of the package 'keras'.*takes those of torch"):
            trainer(tmp_path, losses={"mse": loss})


def test_a_network_of_another_backend(tmp_path):
    with pytest.raises(NetworkError, match="Net is a network of the backend 'torch', and this is the backend 'toy'"):
        ToyTrainer(Net(), tmp_path, losses={"mse": mean_squared_error})
    with pytest.raises(NetworkError, match=r"ToyNetwork is .* subclass delira.models.AbstractPyTorchNetwork"):
        delira.training.PyTorchNetworkTrainer(ToyNetwork(), tmp_path, **SETTINGS)
    with pytest.raises(NetworkError, match="backend 'torch', and this is the backend 'sklearn'"):
        delira.training.SklearnExperiment({"fixed": {"model": {}, "training": {}}}, Net, save_path=tmp_path).run(
            BaseDataManager({"data": np.zeros((4, 3)), "label": np.zeros(4)}, 2)
        )


def test_an_instance_instead_of_a_class(tmp_path):
    with pytest.raises(ConfigError, match=r"an instance of Net; pass the class itself \(Net, not Net\(…\)\)"):
        delira.training.PyTorchExperiment(
            {"fixed": {"model": {}, "training": SETTINGS}}, Net(), save_path=tmp_path
        ).run(BaseDataManager({"data": np.zeros((4, 3)), "label": np.zeros((4, 1))}, 2), num_epochs=1)
