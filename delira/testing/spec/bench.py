"""What every check works with: small problems, the arithmetic of a training by hand, and comparisons."""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.testing.spec.under_test import BackendUnderTest
from delira.utils.arrays import iterate_leaves

Batch = dict[str, np.ndarray]
Gradients = list[np.ndarray]


@dataclasses.dataclass
class Dense:
    """``x @ weight + bias``."""

    weight: np.ndarray
    bias: np.ndarray
    has_bias: bool = True

    def __post_init__(self) -> None:
        self.weight, self.bias = np.array(self.weight, dtype=np.float64), np.array(self.bias, dtype=np.float64)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Predict: (n, n_features) gives (n, n_outputs)."""
        return x @ self.weight + self.bias

    def backward(self, x: np.ndarray, slope: np.ndarray) -> Gradients:
        """Gradients of weight and bias from the loss's slope in every output."""
        bias = slope.sum(axis=0) if self.has_bias else np.zeros_like(self.bias)
        return [x.T @ slope, bias]

    @property
    def parameters(self) -> list[np.ndarray]:
        """What is learned."""
        return [self.weight, self.bias]


Slope = Callable[[np.ndarray, np.ndarray], np.ndarray]


def mse(prediction: np.ndarray, target: np.ndarray) -> float:
    """Mean of the squared differences."""
    return float(np.mean((prediction - target) ** 2))


def mse_slope(prediction: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Derivative of :func:`mse` by every prediction."""
    return 2 * (prediction - target) / prediction.size


def rmse(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """A metric whose mean over batches is not its value over all samples."""
    return float(np.sqrt(np.mean((np.asarray(y_true) - np.asarray(y_pred)) ** 2)))


class Sgd:
    """Gradient descent with momentum.

    Parameters
    ----------
    lr, momentum
        ``v = momentum * v + g``, then ``w = w - lr * v``.
    """

    def __init__(self, lr: float = 0.1, momentum: float = 0.0):
        self.lr, self.momentum = lr, momentum
        self._velocities: Gradients = []

    def update(self, parameters: Sequence[np.ndarray], gradients: Gradients) -> None:
        """Change the parameters in place."""
        self._velocities = self._velocities or [np.zeros_like(parameter) for parameter in parameters]
        for parameter, velocity, gradient in zip(parameters, self._velocities, gradients, strict=True):
            velocity[...] = self.momentum * velocity + gradient
            parameter -= self.lr * velocity


class Adam:
    """Adam (Kingma and Ba, 2015) with the factors 0.9 and 0.999.

    Parameters
    ----------
    lr
        Learning rate.
    """

    def __init__(self, lr: float):
        self.lr = lr
        self._n_updates = 0
        self._moments: list[tuple[np.ndarray, np.ndarray]] = []

    def update(self, parameters: Sequence[np.ndarray], gradients: Gradients) -> None:
        """Change the parameters in place."""
        self._moments = self._moments or [(np.zeros_like(one), np.zeros_like(one)) for one in parameters]
        self._n_updates += 1
        for parameter, (first, second), gradient in zip(parameters, self._moments, gradients, strict=True):
            first[...] = 0.9 * first + 0.1 * gradient
            second[...] = 0.999 * second + 0.001 * gradient**2
            corrected = second / (1 - 0.999**self._n_updates)
            parameter -= self.lr * first / (1 - 0.9**self._n_updates) / (np.sqrt(corrected) + 1e-12)


def descend(
    dense: Dense,
    batches: Iterable[Batch],
    optimizer: Sgd | Adam | None = None,
    slope: Slope = mse_slope,
    change: Callable[[Gradients], Gradients] = list,
) -> tuple[list[float], list[np.ndarray]]:
    """Train a layer on batches, one update for each, in place.

    Parameters
    ----------
    dense
        The layer.
    batches
        With ``data`` and ``label``.
    optimizer
        ``Sgd(0.1, 0.5)``, as :meth:`BackendUnderTest.settings` has it, unless told otherwise.
    slope
        Derivative of the loss by every prediction.
    change
        What is done to the gradients before the update.

    Returns
    -------
    tuple
        The mean squared errors and the predictions of the batches, each before its update.
    """
    optimizer = Sgd(0.1, 0.5) if optimizer is None else optimizer
    losses, predictions = [], []
    for batch in batches:
        prediction = dense(batch["data"])
        predictions.append(prediction)
        losses.append(mse(prediction, batch["label"]) if prediction.shape == batch["label"].shape else np.nan)
        optimizer.update(dense.parameters, change(dense.backward(batch["data"], slope(prediction, batch["label"]))))
    return losses, predictions


def weighted(losses: Sequence[float], batches: Sequence[Batch]) -> list[float]:
    """Mean losses of epochs of the same batches, each weighted by its number of samples."""
    sizes = [len(batch["data"]) for batch in batches]
    return np.average(np.reshape(losses, (-1, len(batches))), axis=1, weights=sizes).tolist()


# ------------------------------------------------------------------ the bench

_QUIET = {"logging_type": None, "verbose": False, "save_freq": None}


class Bench:
    """A backend and a folder, with what is needed to try the backend.

    Parameters
    ----------
    tested
        The backend.
    folder
        An empty folder.
    """

    def __init__(self, tested: BackendUnderTest, folder: Path):
        self.tested, self.folder = tested, folder
        self.backend = tested.backend
        self._numbers = itertools.count(1)

    def new_folder(self) -> Path:
        """A folder that is not there yet."""
        return self.folder / f"run_{next(self._numbers)}"

    # ------------------------------------------------------------------ data

    def arrays(self, n: int = 8, n_features: int = 3, n_outputs: int = 1, seed: int = 7) -> dict[str, np.ndarray]:
        """A linear problem with noise: ``data`` (n, n_features), ``label`` (n, n_outputs), ``number`` (n,)."""
        rng = np.random.default_rng(seed)
        data = rng.normal(size=(n, n_features))
        slope = np.arange(1.0, n_features * n_outputs + 1).reshape(n_features, n_outputs)
        label = data @ slope / n_outputs + 0.1 * rng.normal(size=(n, n_outputs))
        if "bias" not in self.tested.lacks:
            label += 0.5
        return {"data": data, "label": label, "number": np.arange(n)}

    def manager(
        self,
        n: int = 8,
        batch_size: int = 4,
        *,
        arrays: Mapping[str, np.ndarray] | None = None,
        n_features: int = 3,
        n_outputs: int = 1,
        seed: int = 7,
        **changes: Any,
    ) -> BaseDataManager:
        """A manager of :meth:`arrays` in their order; ``n=10`` makes the last batch shorter."""
        given = self.arrays(n, n_features, n_outputs, seed) if arrays is None else arrays
        return BaseDataManager(given, batch_size, **{"sampler_cls": SequentialSampler, **changes})

    def shuffled(self, n: int = 8, batch_size: int = 4, **changes: Any) -> BaseDataManager:
        """The same, in an order that depends on the seed."""
        return self.manager(n, batch_size, sampler_cls=None, **changes)

    def batches(self, n: int = 8, batch_size: int = 4, **problem: Any) -> list[Batch]:
        """The batches of :meth:`manager`, as plain arrays."""
        return split(self.arrays(n, **problem), batch_size)

    # ------------------------------------------------------------------ networks and trainers

    def linear(self, n_features: int = 3, n_outputs: int = 1, dropout: float = 0.0, cls: Any = None) -> Any:
        """A ``Linear`` that begins as :meth:`dense` does."""
        more = {"dropout": dropout} if dropout else {}
        network = (cls or self.tested.Linear)(n_features=n_features, n_outputs=n_outputs, **more)
        if self.is_differentiable:
            dense = self.dense(n_features, n_outputs)
            self.tested.write(network, dense.weight, dense.bias)
        return network

    def mlp(self, dropout: float = 0.0) -> Any:
        """An ``Mlp`` that always begins the same."""
        network = self.tested.Mlp(dropout=dropout) if dropout else self.tested.Mlp()
        for layer, shape, seed in (("body", (3, 5), 1), ("head", (5, 1), 2)):
            self.tested.write(network, np.random.default_rng(seed).normal(size=shape), np.zeros(shape[1]), layer)
        return network

    def layers(self, network: object, *names: str, seed: int = 3) -> dict[str, Dense]:
        """Give layers of a network weights of ours, and return these."""
        rng, made = np.random.default_rng(seed), {}
        for name in names:
            weight, bias = self.tested.read(network, name)
            made[name] = Dense(rng.normal(size=weight.shape).astype(np.float32), rng.normal(size=bias.shape) / 4)
            self.tested.write(network, made[name].weight, made[name].bias, name)
        return made

    def dense(self, n_features: int = 3, n_outputs: int = 1) -> Dense:
        """The layer that networks begin with, in numpy."""
        weight = np.linspace(-0.5, 0.5, n_features * n_outputs).reshape(n_features, n_outputs)
        bias = np.zeros(n_outputs) if "bias" in self.tested.lacks else np.full(n_outputs, 0.25)
        return Dense(weight, bias, has_bias="bias" not in self.tested.lacks)

    def trainer(self, network: object = None, path: Path | None = None, **settings: Any) -> Any:
        """A trainer in a new folder, of a :meth:`linear` unless told otherwise, that writes nothing it need not."""
        network = self.linear() if network is None else network
        return self.tested.trainer_cls(
            network, path or self.new_folder(), **{**_QUIET, **self.tested.settings(), **settings}
        )

    def trained(
        self,
        n_epochs: int = 1,
        data: object = None,
        val_data: object = None,
        val_score_key: str | None = None,
        **given: Any,
    ) -> Any:
        """A :meth:`trainer` that has trained, on a :meth:`manager` unless told otherwise."""
        trainer = self.trainer(**given)
        network = trainer.train(n_epochs, self.manager() if data is None else data, val_data, val_score_key)
        assert network is trainer.module, "train returned another network than that of the trainer"
        return trainer

    def experiment(self, model: Mapping[str, Any] | None = None, cls: type | None = None, **training: Any) -> Any:
        """An experiment in a new folder, of two epochs unless told otherwise."""
        settings = {**_QUIET, "num_epochs": 2, **self.tested.settings(), **training}
        parameters = {"fixed": {"model": dict(model or {}), "training": settings}}
        return self.tested.experiment_cls(parameters, cls or self.tested.Linear, save_path=self.new_folder())

    @property
    def is_differentiable(self) -> bool:
        """Return True if networks learn by gradients."""
        return "gradients" not in self.tested.lacks

    # ------------------------------------------------------------------ comparisons

    def assert_close(self, found: object, expected: object, what: str, factor: float = 1.0) -> None:
        """Compare with arithmetic by hand, to the backend's ``rtol`` of the largest number.

        Parameters
        ----------
        found, expected
            Numbers or arrays.
        what
            For the message.
        factor
            How much further than ``rtol`` they may be apart.
        """
        found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
        assert found.shape == expected.shape, f"{what}: the shape is {found.shape}, by hand {expected.shape}"
        assert np.isfinite(found).all(), f"{what} is not finite: {found.tolist()}"
        limit = factor * self.tested.rtol * max(np.abs(expected).max(initial=0.0), 1e-3)
        error = np.abs(found - expected).max(initial=0.0)
        assert error <= limit, f"{what} is {found.tolist()}, by hand {expected.tolist()} (off by {error:.3g})"

    def assert_layer(self, network: object, dense: Dense, what: str = "the weight", layer: str = "") -> None:
        """Compare the weights of a layer with those by hand."""
        weight, bias = self.tested.read(network, layer)
        expected = np.concatenate([dense.weight, dense.bias[None]])
        self.assert_close(np.concatenate([weight, bias[None]]), expected, f"{what} (the last row is the bias)")

    def assert_history(self, trainer: Any, name: str, expected: Iterable[float]) -> None:
        """Compare one value of every epoch."""
        found = [record.get(name) for record in trainer.state.history]
        assert None not in found, f"the history has no {name!r}: {trainer.state.history}"
        self.assert_close(found, list(expected), f"{name} of the epochs")

    def assert_descended(
        self, trainer: Any, batches: Sequence[Batch], n_epochs: int = 1, by: Sgd | Adam | None = None, **how: Any
    ) -> list[float]:
        """Demand that the weights of a ``Linear`` are those of a descent by hand.

        Parameters
        ----------
        trainer
            Of the ``Linear``.
        batches
            Those of an epoch, one for each update.
        n_epochs
            How many times the batches were seen.
        by, **how
            The optimizer, ``slope`` and ``change`` of :func:`descend`.

        Returns
        -------
        list of float
            The losses of the epochs by hand.
        """
        dense = self.dense(*self.tested.read(trainer.module)[0].shape)
        losses, _ = descend(dense, n_epochs * list(batches), by, **how)
        self.assert_layer(trainer.module, dense)
        return weighted(losses, batches)

    def assert_rates(self, trainer: Any, *rates: float) -> None:
        """Demand a descent without momentum with these learning rates, one for each epoch, and a record of them."""
        dense = self.dense()
        for rate in rates:
            descend(dense, self.batches(), Sgd(rate))
        self.assert_layer(trainer.module, dense)
        self.assert_history(trainer, "lr", rates)

    def tree(self, network: object, optimizers: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Copy of the state of a network, and of optimizers."""
        return self.backend.arrays.snapshot(self.backend.checkpoints.state_tree(network, optimizers or {}))

    def weights(self, network: object) -> dict[str, np.ndarray]:
        """Everything that the network holds, as arrays by name."""
        return self.backend.arrays.to_numpy(self.tree(network)["model"])

    def state(self, trainer: Any) -> dict[str, Any]:
        """Copy of everything that later steps depend on."""
        tree = self.tree(trainer.module, trainer.optimizers)
        return {"tree": tree, "history": list(trainer.state.history), "step": trainer.state.global_step}

    def written(self, tree: Mapping[str, Any]) -> Any:
        """What comes back of a tree that is written to a file and read again."""
        path = Path(f"{self.new_folder()}{self.backend.checkpoint_suffix}")
        with path.open("wb") as file:
            self.backend.checkpoints.write(file, tree)
        return self.backend.checkpoints.read(path)

    @contextlib.contextmanager
    def unchanged(self, look: Callable[[], object], what: str) -> Iterator[None]:
        """Scope that must leave what ``look`` sees as it was, bit for bit."""
        before = look()
        yield
        self.assert_same(before, look(), what)

    def is_same(self, left: object, right: object) -> bool:
        """Return True if two trees are equal bit for bit."""
        return not self.differences(left, right)

    def differences(self, left: object, right: object) -> list[str]:
        """Places at which two trees differ."""
        ours = dict(iterate_leaves(self.backend.arrays.to_numpy(left)))
        theirs = dict(iterate_leaves(self.backend.arrays.to_numpy(right)))
        places = [*ours, *(place for place in theirs if place not in ours)]
        return [
            ".".join(map(str, place))
            for place in places
            if place not in ours or place not in theirs or not _is_same_leaf(ours[place], theirs[place])
        ]

    def assert_same(self, left: object, right: object, what: str) -> None:
        """Demand that two trees are equal bit for bit."""
        assert not (places := self.differences(left, right)), f"{what}: not the same bits in {', '.join(places[:5])}"


class Broken(Exception):
    """What breaks a training off."""


def break_off(*event: object, **facts: object) -> Any:
    """A callback, or a loss, that fails."""
    raise Broken("of the user's")


def caught(kinds: type[Exception] | tuple[type[Exception], ...], ask: Callable[[], Any], *words: str) -> Exception:
    """Demand an error.

    Parameters
    ----------
    kinds
        What it must be.
    ask
        What must raise it.
    *words
        What its message or its notes must contain.

    Returns
    -------
    Exception
        The error.
    """
    try:
        ask()
    except kinds as error:
        found = error
    else:
        names = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
        raise AssertionError(f"no {names} was raised")
    text = "\n".join([str(found), *getattr(found, "__notes__", ())])
    for word in words:
        assert word in text, f"the error does not say {word!r}: {text}"
    return found


def split(arrays: Mapping[str, np.ndarray], lengths: int | Sequence[int]) -> list[Batch]:
    """Arrays in consecutive batches, of one length or of several."""
    n = len(next(iter(arrays.values())))
    ends = [*range(lengths, n, lengths)] if isinstance(lengths, int) else np.cumsum(lengths)[:-1]
    parts = [np.split(array, ends) for array in arrays.values()]
    return [dict(zip(arrays, batch, strict=True)) for batch in zip(*parts, strict=True)]


def _is_same_leaf(left: object, right: object) -> bool:
    left, right = np.asarray(left), np.asarray(right)
    if left.dtype == object or right.dtype == object:
        return bool(left.dtype == right.dtype and left.shape == right.shape and np.all(left == right))
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
