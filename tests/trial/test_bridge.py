"""A trial becomes an experiment, and gains cross-validation."""

import numpy as np
import pytest

import delira
from delira.callbacks.decorators import on_end_epoch
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError


def torch_parts():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2)
    return net, torch.optim.SGD(net.parameters(), 0.5, momentum=0.5), torch.nn.CrossEntropyLoss()


def tensorflow_parts():
    pytest.importorskip("tensorflow", reason="the tensorflow backend needs the package 'tensorflow', not installed")
    import keras

    net = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return net, keras.optimizers.SGD(0.5, momentum=0.5), loss


def jax_parts():
    nnx = pytest.importorskip("flax.nnx", reason="the jax backend needs the package 'flax', which is not installed")
    import optax

    def loss(prediction, target):
        return optax.softmax_cross_entropy_with_integer_labels(prediction, target).mean()

    return nnx.Linear(3, 2, rngs=nnx.Rngs(0)), optax.sgd(0.5, momentum=0.5), loss


every_backend = pytest.mark.parametrize("parts", [torch_parts, tensorflow_parts, jax_parts])


def manager():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    return BaseDataManager({"data": x, "label": (x.sum(axis=1) > 0).astype(np.int64)}, 8)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, when it copies a model
@pytest.mark.left_to_full("tensorflow")
@every_backend
def test_folds_begin_with_the_module_as_it_is_and_leave_it_alone(parts, tmp_path):
    net, optimizer, loss = parts()
    epochs = []

    @on_end_epoch
    def count(state):
        epochs.append((state["phase"], state["epoch"]))

    trial = delira.Trial(net, optimizer, loss, ["cat_acc", "loss"], [count], seed=0, verbose=0)
    before = trial.trainer.backend.arrays.to_numpy(trial.trainer.backend.checkpoints.state_tree(net, {})["model"])
    before = {name: np.array(array) for name, array in before.items()}
    experiment = trial.to_experiment("linear", tmp_path, num_epochs=4, verbose=False)
    first, second = (experiment.kfold(manager(), num_splits=3) for _ in range(2))
    accuracy = first.summary()["cat_acc"]["mean"]
    assert accuracy > 0.85
    assert accuracy == second.summary()["cat_acc"]["mean"]
    assert epochs == 6 * [*(("fit", epoch) for epoch in range(4)), ("evaluate", 0)]
    after = trial.trainer.backend.arrays.to_numpy(trial.trainer.backend.checkpoints.state_tree(net, {})["model"])
    assert all(np.array_equal(array, after[name]) for name, array in before.items())


def test_the_metric_is_that_of_all_cases_that_were_left_out(tmp_path):
    net, optimizer, loss = torch_parts()
    trial = delira.Trial(net, optimizer, loss, ["cat_acc"], seed=0, verbose=0)
    result = trial.to_experiment("linear", tmp_path, num_epochs=1, verbose=False).kfold(manager(), num_splits=3)
    hits = result.oof.predictions["pred"].argmax(axis=1) == result.oof.targets["label"]
    assert result.summary()["cat_acc"]["oof"] == pytest.approx(hits.mean())


def test_groups_of_parameters_keep_their_options():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    import copy

    from delira.backends.torch.backend import BACKEND

    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    twin = copy.deepcopy(net)
    groups = [{"params": net[0].parameters(), "lr": 0.5}, {"params": net[1].parameters(), "weight_decay": 0.25}]
    made = BACKEND.optimizers.copy(torch.optim.Adam(groups, lr=0.125), net, twin)
    assert [(group["lr"], group["weight_decay"]) for group in made.param_groups] == [(0.5, 0), (0.125, 0.25)]
    assert [id(p) for group in made.param_groups for p in group["params"]] == [id(p) for p in twin.parameters()]
    with pytest.raises(ConfigError, match="parameters that are not of the model"):
        BACKEND.optimizers.copy(torch.optim.SGD(twin.parameters(), 0.1), net, twin)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"criterion": None}, "a criterion of predictions and targets"),
        ({"criterion": lambda state: 0.0}, "a criterion of predictions and targets"),
        ({"optimizer": None}, "one optimizer"),
    ],
)
def test_what_an_experiment_cannot_do_is_refused(change, text, tmp_path):
    net, optimizer, loss = torch_parts()
    trial = delira.Trial(net, **{"optimizer": optimizer, "criterion": loss, **change}, seed=0, verbose=0)
    with pytest.raises(ConfigError, match=text):
        trial.to_experiment("linear", tmp_path)


def test_a_module_that_was_fitted_is_refused(tmp_path):
    net, optimizer, loss = torch_parts()
    trial = delira.Trial(net, optimizer, loss, seed=0, verbose=0).with_train_generator(manager())
    trial.run(1)
    with pytest.raises(ConfigError, match="fitted already"):
        trial.to_experiment("linear", tmp_path)


def test_a_closure_is_the_step_and_the_optimizer_updates_after_it():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    from delira.state import LOSS, MODEL, OPTIMIZER, Y_PRED, Y_TRUE, X

    def closure(state):
        state[OPTIMIZER].zero_grad()
        state[Y_PRED] = state[MODEL](state[X])
        state[LOSS] = (state[Y_PRED] - state[Y_TRUE]).pow(2).mean()
        state[LOSS].backward()

    x, y = torch.randn(8, 3), torch.randn(8, 1)
    net, twin = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
    twin.load_state_dict(net.state_dict())
    trial = delira.Trial(net, torch.optim.SGD(net.parameters(), 0.1), None, ["loss"], seed=0, verbose=0)
    record = trial.with_closure(closure).with_train_data(x, y, 8).run(1)[0]
    loss = (twin(x) - y).pow(2).mean()
    loss.backward()
    torch.optim.SGD(twin.parameters(), 0.1).step()
    assert record["loss"] == pytest.approx(loss.item(), rel=1e-6)
    assert torch.allclose(net.weight, twin.weight, rtol=1e-6)
