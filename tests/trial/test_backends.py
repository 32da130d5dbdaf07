"""Which framework a module belongs to."""

import pytest

from delira.errors import NetworkError
from delira.testing import ToyNetwork
from delira.trial.bridge import backend_of, shown


def test_a_module_of_torch_has_its_trainer_and_experiment():
    torch = pytest.importorskip("torch")

    class Own(torch.nn.Linear):
        """A class of the user's, whose module is none of torch."""

    for model in (torch.nn.Linear(1, 1), Own(1, 1)):
        assert shown(model, "NetworkTrainer").__name__ == "PyTorchNetworkTrainer"
        assert shown(model, "Experiment").__name__ == "PyTorchExperiment"
        assert backend_of(model).name == "torch"


def test_a_module_of_torchscript_is_one_of_torch():
    torch = pytest.importorskip("torch")
    assert backend_of(torch.jit.script(torch.nn.Linear(1, 1))).name in ("torch", "torchscript")


def test_an_estimator_is_one_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    assert backend_of(linear_model.LinearRegression()).name == "sklearn"


def test_no_network_is_one_of_the_first_framework():
    pytest.importorskip("torch")
    assert backend_of(None).name == "torch"


@pytest.mark.parametrize("model", [3, object(), len])
def test_what_belongs_to_no_framework_is_refused(model):
    with pytest.raises(NetworkError, match=r"a trial takes a torch\.nn\.Module, .* got "):
        shown(model, "NetworkTrainer")


def test_a_backend_that_is_not_ours_has_no_trial():
    with pytest.raises(NetworkError, match="a trial takes"):
        backend_of(ToyNetwork(1))
