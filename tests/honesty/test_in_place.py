"""A network that works in place on its input changes no batch that metrics, losses, callbacks or users read."""

import numpy as np
import pytest

from delira.errors import NetworkError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(10, 3)).astype(np.float32)
Y = RNG.normal(size=(10, 1)).astype(np.float32)


def mean_of_input(y_true, data):
    return float(np.mean(data))


def of_torch(work, returns=None):
    torch = pytest.importorskip("torch")
    from delira.models import AbstractPyTorchNetwork

    class Net(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x):
            work(x, self)
            return {"pred": self.layer(x)}

    return Net()


def relu(x, network):
    pytest.importorskip("torch").nn.functional.relu(x, inplace=True)


def subtract(x, network):
    x -= 10


def behind_the_counter(x, network):
    x.data[:] = 0.0


def only_in_training(x, network):
    if network.training:
        x.add_(3.0)


def same_values(x, network):
    x.clamp_(-1e6, 1e6)  # changes the count of changes, but nothing here


WAYS = [relu, subtract, behind_the_counter, only_in_training, same_values]


def batches(dtype=np.float32):
    return [
        {"data": X[start : start + 4].astype(dtype), "label": X[start : start + 4].astype(dtype)} for start in (0, 4, 8)
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("work", WAYS)
def test_metrics_losses_and_users_read_the_batch_as_it_was(work, dtype):
    torch = pytest.importorskip("torch")
    from delira.training import PyTorchNetworkTrainer

    def difference(pred, target):
        return ((pred - pred) + target).mean()  # differentiable, and its value is the target's

    network, seen = of_torch(work), []

    class Look:
        def at_iter_end(self, trainer, data_dict, **facts):
            seen.append(np.array(data_dict["data"]))

    trainer = PyTorchNetworkTrainer(
        network, None, losses={"target": difference}, loss_keys={"target": ("pred", "data")},
        train_metrics={"step": lambda pred, target: target.mean()},
        metrics={"whole": mean_of_input}, val_metrics={"held_out": mean_of_input},
        metric_keys={"step": ("pred", "data"), "whole": ("label", "data"), "held_out": ("label", "data")},
        optimizer_cls=torch.optim.SGD, optimizer_params={"lr": 0.0}, callbacks=[Look()],
        logging_type=None, verbose=False,
    )  # fmt: skip
    train, held_out = batches(dtype), batches(dtype)
    trainer.train(2, train, held_out)
    for record in trainer.state.history:
        values = {name: record[name] for name in ("target", "step", "whole", "val_held_out", "val_target")}
        assert values == pytest.approx(dict.fromkeys(values, float(X.mean())), abs=1e-6)
    assert np.array_equal(np.concatenate(seen), np.concatenate([X, X]))
    for given in (train, held_out):
        assert np.array_equal(np.concatenate([batch["data"] for batch in given]), X.astype(dtype))


@pytest.mark.parametrize("work", [relu, subtract])
def test_predict_leaves_arrays_and_tensors_of_the_user_alone(work):
    torch = pytest.importorskip("torch")
    from delira.training import Predictor

    array, tensor = X.copy(), torch.from_numpy(X.copy())
    predictor = Predictor(of_torch(work))
    first = predictor.predict({"data": array})["pred"]
    second = predictor.predict({"data": tensor})["pred"]
    assert np.array_equal(array, X)
    assert np.array_equal(tensor.numpy(), X)
    assert np.array_equal(first, second)


def test_a_closure_of_the_users_own_leaves_the_batch_alone():
    torch = pytest.importorskip("torch")
    from delira.training import PyTorchNetworkTrainer

    network = of_torch(subtract)

    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
        predictions = model(data_dict["data"])
        loss = predictions["pred"].mean()
        optimizers["default"].zero_grad()
        loss.backward()
        optimizers["default"].step()
        return {}, {"loss": loss.detach()}, {"pred": predictions["pred"].detach()}

    type(network).closure = staticmethod(closure)
    trainer = PyTorchNetworkTrainer(
        network, None, metrics={"whole": mean_of_input}, metric_keys={"whole": ("label", "data")},
        optimizer_cls=torch.optim.SGD, optimizer_params={"lr": 0.0}, logging_type=None, verbose=False,
    )  # fmt: skip
    train = batches()
    trainer.train(2, train)
    assert [record["whole"] for record in trainer.state.history] == pytest.approx([float(X.mean())] * 2, abs=1e-6)
    assert np.array_equal(np.concatenate([batch["data"] for batch in train]), X)


def test_a_trial_leaves_batches_alone():
    torch = pytest.importorskip("torch")
    from delira import Trial

    model = torch.nn.Sequential(torch.nn.ReLU(inplace=True), torch.nn.Linear(3, 1))
    x = torch.from_numpy(X.copy())
    trial = Trial(model, torch.optim.SGD(model.parameters(), lr=0.0), torch.nn.functional.mse_loss, verbose=0)
    trial.with_train_generator([(x, torch.from_numpy(Y))]).run(2)  # batches of the user's own
    assert np.array_equal(x.numpy(), X)
    assert tuple(trial.with_test_data(x, batch_size=5).predict(verbose=0).shape) == (10, 1)
    assert np.array_equal(x.numpy(), X)


def test_a_network_that_begins_to_work_in_place_later_is_refused_by_name():
    torch = pytest.importorskip("torch")
    from delira.training import Predictor

    def late(x, network):
        if float(x.detach().mean()) > 5:
            x.zero_()

    predictor = Predictor(of_torch(late))
    predictor.predict({"data": X.copy()})
    with pytest.raises(NetworkError, match=r"Net changed what it was called with, in place.*x = x.clone\(\)"):
        predictor.predict({"data": np.full((2, 3), 9, np.float32)})
    large = torch.full((2, 3), 9.0)  # from now on it gets copies
    predictor.predict({"data": large})
    assert bool((large == 9).all())


def test_a_network_that_does_not_work_in_place_gets_no_copy():
    pytest.importorskip("torch")
    from delira.training import Predictor

    places = []
    network = of_torch(lambda x, network: places.append(x.data_ptr()))
    predictor, array = Predictor(network), X.copy()
    for _ in range(3):
        predictor.predict({"data": array})
    assert places[0] != array.ctypes.data
    assert places[1:] == [array.ctypes.data] * 2


def test_an_estimator_that_works_in_place_leaves_the_batch_alone():
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from delira.models import SklearnEstimator

    rows, labels = X.astype(np.float64), (X[:, 0] > 0).astype(int)
    expected = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels).predict_proba(rows)
    network = SklearnEstimator(make_pipeline(StandardScaler(copy=False), LogisticRegression()))
    network.learn(rows.copy(), labels, batch=False)
    given = rows.copy()
    assert network(given)["pred"] == pytest.approx(expected)
    assert np.array_equal(given, rows)


def test_the_smallest_network_leaves_the_batch_alone():
    from delira.testing import ToyNetwork
    from delira.training import Predictor

    class Net(ToyNetwork):
        def __call__(self, x):
            x -= 10
            return {"pred": x @ self.weight}

    array = X.astype(np.float64)
    Predictor(Net()).predict({"data": array})
    assert np.array_equal(array, X.astype(np.float64))
