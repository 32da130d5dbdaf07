"""How a trial calls networks and criteria: with the state where they ask for it, also inside of what wraps them."""

import io
import logging

import numpy as np
import pytest
from trial_makers import INPUTS, TARGETS, line, line_trial, need, squared_error, weights

import delira
from delira.state import MODEL, Y_PRED, State, StateView, X, state_key

SEEN = state_key("seen_by_network")


def torch_net(**keywords):
    torch = pytest.importorskip("torch")

    class Looking(torch.nn.Linear):
        def forward(self, x, state):
            state[SEEN] = state.get(SEEN, 0) + 1
            assert state[X] is x
            return super().forward(x)

    net = Looking(3, 1, bias=False)
    net.weight.data = torch.full((1, 3), 0.1)
    return net


def wrappers():
    torch = pytest.importorskip("torch")

    class Named(torch.nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net, self.other = net, torch.nn.Identity()

        def forward(self, *args, **kwargs):
            return self.other(self.net(*args, **kwargs))

    class Alone(torch.nn.Module):
        def __init__(self, net):
            super().__init__()
            self.whatever = net

        def forward(self, x, **kwargs):
            return self.whatever(x, **kwargs)

    return {
        "bare": lambda net: net,
        "DataParallel": torch.nn.DataParallel,
        "torch.compile": lambda net: torch.compile(net, backend="eager"),
        "args and kwargs": Named,
        "kwargs": Alone,
        "all of them": lambda net: Alone(torch.nn.DataParallel(Named(torch.compile(net, backend="eager")))),
    }


def final(net):
    trial = line_trial("torch", net=net, seed=0, how="sgd", batch_size=6)
    trial.with_val_data(INPUTS, TARGETS, 24).run(1)
    return trial


@pytest.mark.parametrize("name", ["bare", "DataParallel", "torch.compile", "args and kwargs", "kwargs", "all of them"])
def test_a_network_that_needs_the_state_gets_it_inside_of_what_wraps_it(name):
    net = torch_net()
    trial = final(wrappers()[name](net))
    assert trial.state[SEEN] == 5, "four steps, and a batch of the validation"
    np.testing.assert_array_equal(weights("torch", net), weights("torch", final(torch_net()).state["model"]))


@pytest.mark.filterwarnings("ignore")
def test_a_network_that_needs_the_state_gets_it_inside_of_distributed_data_parallel(tmp_path):
    torch = pytest.importorskip("torch")
    distributed = torch.distributed
    if not distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        net = torch_net()
        assert final(torch.nn.parallel.DistributedDataParallel(net)).state[SEEN] == 5
    finally:
        distributed.destroy_process_group()
    np.testing.assert_allclose(weights("torch", net), weights("torch", final(torch_net()).state["model"]), rtol=1e-6)


def stored(program):
    """What TorchScript reads back of a program that it wrote."""
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    torch.jit.save(program, file)
    file.seek(0)
    return torch.jit.load(file)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("way", ["scripted", "traced", "read back"])
def test_a_network_that_torchscript_compiled_is_trained_as_it_was_before(way):
    torch = pytest.importorskip("torch")
    ways = {
        "scripted": torch.jit.script,
        "traced": lambda net: torch.jit.trace(net, torch.tensor(INPUTS)),
        "read back": lambda net: stored(torch.jit.script(net)),
    }
    net = ways[way](line("torch"))
    trial, plain = final(net), final(line("torch"))
    expected = weights("torch", plain.state["model"])
    np.testing.assert_allclose(dict(net.named_parameters())["weight"].detach().numpy().ravel(), expected, rtol=1e-6)
    assert trial.history[-1]["val_loss"] == pytest.approx(plain.history[-1]["val_loss"], rel=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_network_that_torchscript_froze_is_evaluated():
    torch = pytest.importorskip("torch")
    frozen = torch.jit.freeze(torch.jit.script(line("torch").eval()))
    trial = delira.Trial(frozen, None, squared_error, ["loss"], verbose=0).with_val_data(INPUTS, TARGETS, 24)
    expected = np.mean((INPUTS.sum(1, keepdims=True) * np.float32(0.1) - TARGETS) ** 2)
    assert trial.evaluate()["val_loss"] == pytest.approx(expected, rel=1e-5)


def test_what_copies_dictionaries_to_its_devices_is_given_the_state_itself():
    torch = pytest.importorskip("torch")

    class Sharing(torch.nn.DataParallel):
        """As on GPUs: what is a dictionary is copied."""

        def forward(self, *args, **kwargs):
            copies = {key: type(one)(one) if isinstance(one, dict) else one for key, one in kwargs.items()}
            return self.module(*args, **copies)

    net = Sharing(torch_net())
    net.device_ids = [0]
    assert final(net).state[SEEN] == 5


def test_a_view_of_the_state_is_the_state():
    state = State({SEEN: 1})
    view = StateView(state)
    view[X] = 2
    assert state[X] == 2
    assert view[SEEN] == 1
    assert list(view) == [SEEN, X]
    assert len(view) == 2
    del view[X]
    assert X not in state
    assert view.get(X) is None
    with pytest.raises(KeyError, match="no 'y_pred'; it is there from on_forward on"):
        view[Y_PRED]


@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_wrappers_of_other_frameworks_hand_the_state_on(framework):
    need(framework)
    seen, net = [], _wrapped_line(framework, lambda state: seen.append(state[MODEL] is net))
    trial = line_trial(framework, net=net, seed=0, batch_size=24, compiled=False)
    trial.run(1)
    assert seen
    assert all(seen)


def _wrapped_line(framework, look):
    if framework == "tensorflow":
        import keras

        class Inner(keras.layers.Layer):
            def __init__(self):
                super().__init__()
                self.dense = keras.layers.Dense(1)

            def call(self, x, state):
                look(state)
                return self.dense(x)

        class Outer(keras.Model):
            def __init__(self):
                super().__init__()
                self.net = Inner()

            def call(self, x, **kwargs):
                return self.net(x, **kwargs)

        return Outer()
    from flax import nnx

    class InnerJax(nnx.Module):
        def __init__(self):
            self.dense = nnx.Linear(3, 1, rngs=nnx.Rngs(0))

        def __call__(self, x, state):
            look(state)
            return self.dense(x)

    class OuterJax(nnx.Module):
        def __init__(self):
            self.net = InnerJax()

        def __call__(self, *args, **kwargs):
            return self.net(*args, **kwargs)

    return OuterJax()


def test_a_network_of_ours_is_unwrapped_of_its_name_inside_of_a_wrapper():
    torch = pytest.importorskip("torch")
    from delira.models import AbstractPyTorchNetwork

    class Ours(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.dense = torch.nn.Linear(3, 1)

        def forward(self, x):
            return {"pred": self.dense(x)}

    assert final(torch.nn.DataParallel(Ours())).state[Y_PRED].shape == (24, 1)


def told(net, caplog, n_runs=2):
    caplog.set_level(logging.WARNING, "delira")
    trial = line_trial("torch", net=net, seed=0)
    for epochs in range(1, n_runs + 1):
        trial.run(epochs)
    return [one.getMessage() for one in caplog.records if "state" in one.getMessage()]


def test_a_state_with_a_default_stays_the_networks_own_and_that_is_said_once_with_the_cure(caplog):
    torch = pytest.importorskip("torch")

    class Recurrent(torch.nn.Linear):
        def forward(self, x, state=None):
            assert state is None
            return super().forward(x)

    (message,) = told(Recurrent(3, 1), caplog)
    assert "the argument 'state' of Recurrent has a default" in message
    assert "take the default away, or annotate it: state: delira.state.State" in message


def test_of_keywords_that_are_called_state_it_is_said_what_they_are(caplog):
    torch = pytest.importorskip("torch")

    class Keywords(torch.nn.Linear):
        def forward(self, x, **state):
            assert isinstance(state["state"], State)
            return super().forward(x)

    (message,) = told(Keywords(3, 1), caplog)
    assert "write forward(self, x, state) to get the state" in message


def test_nothing_is_said_of_networks_that_get_the_state_or_want_none(caplog):
    torch = pytest.importorskip("torch")
    assert told(torch_net(), caplog) == told(torch.nn.Linear(3, 1), caplog) == []


# ------------------------------------------------------------------ criteria


def one_loss(criterion, y=TARGETS):
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(3, 1, bias=False)
    net.weight.data = torch.full((1, 3), 0.1)
    trial = delira.Trial(net, torch.optim.SGD(net.parameters(), 0.05), criterion, ["loss"], verbose=0, seed=0)
    return trial.with_train_data(INPUTS, y, 24).run(1)[0]["loss"]


PREDICTIONS = INPUTS.astype("f8") @ np.full((3, 1), 0.1)


def test_a_criterion_of_predictions_and_targets_gets_none_where_there_is_no_target():
    seen = []

    def criterion(y_pred, y_true):
        seen.append(y_true)
        return (y_pred**2).mean()

    assert one_loss(criterion, y=None) == pytest.approx(np.mean(PREDICTIONS**2), rel=1e-5)
    assert seen == [None]

    def target_first(y_true, y_pred):
        assert y_true is None
        return (y_pred**2).mean()

    assert one_loss(target_first, y=None) == pytest.approx(np.mean(PREDICTIONS**2), rel=1e-5)


def test_a_criterion_whose_target_has_a_default_keeps_it():
    def criterion(y_pred, y_true="none"):
        assert isinstance(y_true, str)
        return (y_pred**2).mean()

    assert one_loss(criterion, y=None) == pytest.approx(np.mean(PREDICTIONS**2), rel=1e-5)


@pytest.mark.parametrize("y", [TARGETS, None], ids=["targets", "none"])
def test_a_criterion_of_one_argument_gets_what_its_name_says(y):
    def of_predictions(y_pred):
        return (y_pred**2).mean()

    def of_logits(logits):
        return (logits**2).mean()

    def of_state(s):
        return (s[Y_PRED] ** 2).mean()

    for criterion in (of_predictions, of_logits, of_state, lambda state: (state[Y_PRED] ** 2).mean()):
        assert one_loss(criterion, y) == pytest.approx(np.mean(PREDICTIONS**2), rel=1e-5)


def test_layers_in_a_list_are_no_network_that_is_wrapped():
    pytest.importorskip("flax")
    from flax import nnx

    from delira.contract.calls import advice_about_state, needed_inputs

    net = nnx.Sequential(nnx.Linear(3, 1, rngs=nnx.Rngs(0)))
    assert advice_about_state(net) is None
    assert needed_inputs(net) == 0
