"""Networks of TorchScript: their arguments, their batches, and what is refused."""

import numpy as np
import pytest
from problems import linear_problem

torch = pytest.importorskip("torch")
from small_backends_torchscript import TorchScriptLinear, torchscript_kit  # noqa: E402

from delira.data_loading import BaseDataManager  # noqa: E402
from delira.errors import ConfigError  # noqa: E402
from delira.models import AbstractPyTorchNetwork, AbstractTorchScriptNetwork, load_named_weights, named_weights  # noqa: E402
from delira.training import TorchScriptNetworkTrainer  # noqa: E402

KIT = torchscript_kit()


class TwoInputs(AbstractTorchScriptNetwork):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    @torch.jit.script_method
    def forward(self, left, right, factor: float = 1.0):
        return {"pred": factor * self.linear(left + right)}


class NotScripted(AbstractTorchScriptNetwork):
    def forward(self, x):
        return {"pred": x}


def test_a_network_keeps_its_arguments_and_takes_the_historic_optimize():
    class Historic(TorchScriptLinear):
        def __init__(self):
            AbstractTorchScriptNetwork.__init__(self, optimize=False, n_features=4)
            self.drop, self.linear = torch.nn.Dropout(0.0), torch.nn.Linear(4, 1)

    network = Historic()
    assert network.init_kwargs == {"n_features": 4}
    assert network(torch.ones(2, 4))["pred"].shape == (2, 1)
    assert isinstance(network, torch.jit.ScriptModule)


def test_everything_in_a_batch_becomes_float32_and_the_batch_stays_as_it_is():
    batch = {"data": np.ones((2, 3)), "label": np.array([1, 2]), "more": [np.array([True, False])], "name": ["a", "b"]}
    prepared = TorchScriptLinear.prepare_batch(batch, "cpu", "cpu")
    assert [prepared["data"].dtype, prepared["label"].dtype, prepared["more"][0].dtype] == [torch.float32] * 3
    assert prepared["name"] == ["a", "b"]
    assert batch["label"].dtype == np.int64


def test_the_arguments_of_a_network_are_those_of_its_program():
    assert KIT.backend.calls.key_mapping(KIT.build()) == {"x": "data"}
    assert KIT.backend.calls.arguments_of(TwoInputs()) == {"left", "right", "factor"}
    with pytest.raises(ConfigError, match=r"TwoInputs.forward takes \['left', 'right', 'factor'\], so it is not clear"):
        KIT.backend.calls.key_mapping(TwoInputs())


def test_the_default_closure_called_by_hand_finds_the_argument():
    network = KIT.build()
    batch = network.prepare_batch({"data": np.ones((2, 3)), "label": np.ones((2, 1))}, "cpu", "cpu")
    _, losses, predictions = network.closure(network, batch, {}, losses={"mse": KIT.loss})
    assert losses.keys() == {"val_mse"}
    assert predictions["pred"].shape == (2, 1)


def test_two_inputs_are_trained_with_a_key_mapping(tmp_path):
    arrays = linear_problem(10)
    data = BaseDataManager({"one": arrays["data"], "two": arrays["data"] / 2, "label": arrays["label"]}, 4)
    trainer = TorchScriptNetworkTrainer(TwoInputs(), tmp_path, {"left": "one", "right": "two"}, **KIT.settings)
    trainer.train(5, data)
    assert trainer.state.history[-1]["mse"] < trainer.state.history[0]["mse"] / 2


def test_a_forward_without_script_method_is_refused_with_the_cure(tmp_path):
    with pytest.raises(ConfigError, match=r"NotScripted.forward is no TorchScript; write @torch.jit.script_method"):
        KIT.trainer(tmp_path, NotScripted())


def test_weights_move_between_this_backend_and_the_pytorch_backend():
    class Eager(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 1, bias=False)

        def forward(self, x):
            return {"pred": self.linear(x)}

    scripted, eager = TorchScriptLinear(), Eager()
    load_named_weights(eager, named_weights(scripted))
    inputs = torch.randn(4, 3)
    assert torch.equal(scripted(inputs)["pred"], eager(inputs)["pred"])
