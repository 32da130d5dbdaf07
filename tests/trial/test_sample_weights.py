"""Weights of samples: they reach the criterion, or somebody says that they cannot."""

import numpy as np
import pytest

import delira
from delira.callbacks import Callback, Mixup, SamplePairing, mixup_loss
from delira.errors import ConfigError, DataError
from delira.state import SAMPLE_WEIGHT, X

torch = pytest.importorskip("torch", reason="PyTorch, which is not installed")

rng = np.random.default_rng(0)
x = rng.normal(size=(30, 3)).astype("float32")
y = rng.normal(size=(30, 1)).astype("float32")
weights = rng.uniform(0, 2, 30).astype("float32")


def weighted(y_pred, y_true, sample_weight):
    return (((y_pred - y_true) ** 2).mean(axis=1) * sample_weight).mean()


def trial(criterion=weighted):
    torch.manual_seed(0)
    network = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    return network, delira.Trial(network, optimizer, criterion, ["loss"], verbose=0)


def expected(network):
    errors = ((network(torch.tensor(x)).detach().numpy() - y) ** 2).mean(axis=1)
    return float(np.mean(errors * weights))


def test_arrays_have_them_as_an_argument():
    network, made = trial()
    made.with_train_data(x, y, 7, sample_weight=weights).with_val_data(x, y, 7, sample_weight=weights).run(2)
    assert made.history[-1]["val_loss"] == pytest.approx(expected(network), rel=1e-5)


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_a_batch_of_three_has_them_and_learns_by_them(micro_batches):
    batches = [(x[part], y[part], weights[part]) for part in (slice(15), slice(15, 30))]
    network, _ = trial()
    torch.manual_seed(0)
    twin = torch.nn.Linear(3, 1)
    made = delira.Trial(
        network, torch.optim.SGD(network.parameters(), lr=0.1), weighted, verbose=0, micro_batches=micro_batches
    )
    made.with_train_generator(batches).run(1)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    for batch in batches:
        optimizer.zero_grad()
        a, b, w = map(torch.tensor, batch)
        weighted(twin(a), b, w).backward()
        optimizer.step()
    for one, other in zip(network.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-7)


def test_a_loader_of_the_users_may_set_them():
    network, made = trial()

    def load(state):
        state["x"], state["y_true"], state["sample_weight"] = next(state["iterator"])

    batch = tuple(map(torch.tensor, (x, y, weights)))
    assert made.with_loader(load).with_val_generator([batch]).evaluate()["val_loss"] == pytest.approx(
        expected(network), rel=1e-5
    )


def test_a_criterion_that_takes_none_is_refused():
    _, made = trial(torch.nn.MSELoss())
    with pytest.raises(ConfigError, match=r"MSELoss\(\) has no argument sample_weight"):
        made.with_train_data(x, y, 7, sample_weight=weights).run(1)


def test_what_is_not_one_number_for_each_sample_is_refused():
    _, made = trial()
    with pytest.raises(
        DataError, match=r"the weights of its samples, has the shape \(30, 1\), and there are 30 samples"
    ):
        made.with_train_generator([(x, y, weights.reshape(-1, 1))]).run(1)


def test_batches_without_them_go_on_as_before():
    def told(y_pred, y_true, sample_weight=None):
        return 0 * y_pred.sum() + (1 if sample_weight is None else 0)

    assert trial(told)[1].with_val_data(x, y, 7).evaluate()["val_loss"] == 1


def test_an_estimator_says_that_it_takes_none():
    from sklearn.linear_model import SGDRegressor

    made = delira.Trial(SGDRegressor(), metrics=["mse"], verbose=0)
    with pytest.raises(ConfigError, match="an estimator learns without weights"):
        made.with_train_data(x, y[:, 0], 10, sample_weight=weights).run(1)


def test_a_callback_may_set_them():
    class Set(Callback):
        def on_sample_validation(self, state):
            state[SAMPLE_WEIGHT] = torch.full((len(state[X]),), 10.0)

    network, _ = trial()
    made = delira.Trial(network, None, weighted, ["loss"], [Set()], verbose=0)
    errors = ((network(torch.tensor(x)).detach().numpy() - y) ** 2).mean()
    assert made.with_val_data(x, y, 7).evaluate()["val_loss"] == pytest.approx(10 * errors, rel=1e-5)


@pytest.mark.parametrize("callback", [Mixup(0.4), SamplePairing(lambda state: True)], ids=["Mixup", "SamplePairing"])
def test_samples_that_are_mixed_have_none(callback):
    network = torch.nn.Linear(3, 1)
    made = delira.Trial(
        network, torch.optim.SGD(network.parameters(), lr=0.1), mixup_loss(weighted), [], [callback], verbose=0
    )
    with pytest.raises(ConfigError, match="mixes samples, and the batch has weights"):
        made.with_train_data(x, y, 7, sample_weight=weights).run(1)


def test_weights_that_are_no_numbers_are_refused():
    _, made = trial()
    with pytest.raises(DataError, match="the weights of the samples of a batch are no numbers"):
        made.with_train_generator([(x, y, weights.astype(object))]).run(1)
