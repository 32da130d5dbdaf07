"""A backend as the specification sees it: what its author fills in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from delira.contract import Backend
from delira.errors import ConfigError, check_flags, check_numbers, check_texts


class BackendUnderTest:
    """Everything that the checks need of a backend: subclass it, fill it in, pass an instance to ``check_backend``.

    Networks are classes that can be imported (experiments build them anew, files name them), and small
    enough to be computed by hand. They take their arguments as keywords. Weights may begin anywhere; the
    checks write their own. What a backend does not offer stands in :attr:`lacks`, and what belongs to it need not
    be filled in.
    """

    name: str
    """Name of the backend."""
    trainer_cls: Any
    """The backend's trainer."""
    experiment_cls: Any
    """The backend's experiment."""

    rtol: float = 1e-4
    """How far the backend may be from float64 arithmetic by hand."""

    lacks: ClassVar[Mapping[str, str]] = {}
    """Feature -> why the backend does not offer it; :data:`delira.testing.spec.FEATURES` lists them. Where a user
    can ask for the feature, the checks demand that it is refused with a ``ConfigError``."""

    transposed: bool = False
    """Whether dense layers store weights as (n_outputs, n_features), as PyTorch does."""

    # ------------------------------------------------------------------ networks

    Linear: Any
    """``Linear(n_features=3, n_outputs=1, dropout=0.0)``: ``{"pred": dropped(x) @ weight + bias}`` of one
    argument ``x``, with the backend's default closure. Dropout leaves inputs out with this probability and scales
    the others by ``1 / (1 - dropout)`` or not."""

    Mlp: Any
    """``Mlp(n_features=3, n_hidden=5, n_outputs=1, dropout=0.0)``: dense, batch normalisation, tanh, dropout,
    dense, of one argument ``x``; with the backend's default closure. Feature ``"mlp"``."""

    Two: Any
    """``Two(n_features=3)``: two arguments, ``left`` and ``right``, each of shape (B, n_features), and two dense
    layers of those names with one output; ``{"pred": left(left) + right(right), "other": left(left)}``; with
    the backend's default closure. Feature ``"two"``."""

    Nested: Any
    """``Nested(n_features=3)``: like ``Two``, but of one argument ``pair``, a dict ``{"left": …, "right": …}``, and
    with the nested output ``{"pred": …, "parts": {"left": left(left), "right": right(right)}}``. Feature
    ``"nested"``."""

    ByHand: Any
    """``ByHand(n_features=3, n_outputs=1)``: ``Linear`` without dropout, with a closure of its own:
    ``closure(model, data_dict, optimizers, losses, metrics=None, fold=0, factor=1.0, iter_num=0,
    global_iter_num=0)``, which takes no ``**kwargs``, updates once with ``losses["mse"]`` of ``pred`` and
    ``data_dict["label"]``, and returns ``({"iter_num": iter_num, "global_iter_num": global_iter_num, "fold": fold},
    {"mse": loss, "scaled": factor * loss}, {"pred": pred})``. Feature ``"own_closure"``."""

    Gan: Any
    """``Gan(n_features=2)``: dense layers ``gen`` (n_features to n_features) and ``discr`` (n_features to 1); of one
    argument ``x`` it makes ``{"pred": discr(gen(x)), "fake": gen(x)}``. Its closure takes ``data_dict`` with
    ``"data"`` and ``"real"`` and updates first ``discr`` with the optimizer ``"discr"`` by
    ``mean((discr(real) - 1)**2) + mean(discr(fake)**2)``, ``fake`` without gradient, then ``gen`` with the optimizer
    ``"gen"`` by ``mean((discr(gen(data)) - 1)**2)`` through the updated ``discr``. It returns
    ``({}, {"discr": …, "gen": …}, {"pred": discr(gen(data)), "fake": gen(data)})``. Feature ``"gan"``."""

    # ------------------------------------------------------------------ losses and optimizers

    def mse(self, prediction: object, target: object) -> Any:
        """Mean of the squared differences, in the framework."""
        raise NotImplementedError

    def absolute(self, prediction: object, target: object) -> Any:
        """Mean of the absolute differences, in the framework. Feature ``"absolute"``."""
        raise NotImplementedError

    def cross_entropy(self, prediction: object, target: object) -> Any:
        """Mean cross entropy of logits of shape (B, C) and integers of shape (B,). Feature ``"cross_entropy"``."""
        raise NotImplementedError

    def sgd(self, lr: float, momentum: float = 0.0) -> dict[str, Any]:
        """Settings of gradient descent: ``v = momentum * v + g``, then ``w = w - lr * v`` (or, as Keras has it,
        ``v = momentum * v - lr * g``, then ``w = w + v``: the same while the rate is).
        """
        raise NotImplementedError

    def adam(self, lr: float) -> dict[str, Any]:
        """Settings of Adam with the factors 0.9 and 0.999, and 1e-12 as its small number. Feature ``"adam"``."""
        raise NotImplementedError

    def halving(self) -> dict[str, Any]:
        """Settings with which the learning rate halves after every epoch, by the backend's schedules or a callback."""
        raise NotImplementedError

    def gan_optimizers(self) -> dict[str, Any]:
        """Settings with which a ``Gan`` has the optimizers ``"gen"`` and ``"discr"``, to be added to those of
        :meth:`sgd`. Feature ``"gan"``.
        """
        raise NotImplementedError

    # ------------------------------------------------------------------ looking at the framework

    def is_learning(self, network: object) -> bool:
        """Return True if the network is in training mode, or gradients are being recorded."""
        raise NotImplementedError

    def draw(self) -> float:
        """One number of the framework's own generator."""
        raise NotImplementedError

    #: endings of the files that :meth:`run_exported` can run. Feature ``"export"``
    exports: tuple[str, ...] = ()

    def run_exported(self, path: Path, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Predictions of an exported ``Linear`` of float32 inputs by argument, without delira. Feature ``"export"``."""
        raise NotImplementedError

    # ------------------------------------------------------------------ what rarely has to be changed

    def settings(self) -> dict[str, Any]:
        """The least that a training needs."""
        return {"losses": {"mse": self.mse}, **self.sgd(0.1, 0.5)}

    def read(self, network: object, layer: str = "") -> tuple[np.ndarray, np.ndarray]:
        """Copies of weight (n_features, n_outputs) and bias (n_outputs,) of a ``Linear``, or of a layer of another."""
        arrays = self._layer(network, layer)
        weight, bias = (arrays[name] for name in self._names(arrays))
        return (weight.T if self.transposed else weight).astype(np.float64), bias.astype(np.float64)

    def write(self, network: object, weight: np.ndarray, bias: np.ndarray, layer: str = "") -> None:
        """Set what :meth:`read` reads."""
        arrays = self.backend.weights.named(network)
        names = self._names(self._layer(network, layer))
        for name, value in zip(names, (weight.T if self.transposed else weight, bias), strict=True):
            arrays[name] = np.ascontiguousarray(value).astype(arrays[name].dtype).reshape(arrays[name].shape)
        self.backend.weights.load_named(network, arrays)

    @property
    def backend(self) -> Backend:
        """The verbs."""
        return self.trainer_cls.backend

    def _layer(self, network: object, layer: str) -> dict[str, np.ndarray]:
        weights = self.backend.weights.named(network)
        return {name: array for name, array in weights.items() if name.startswith(f"{layer}." if layer else "")}

    @staticmethod
    def _names(arrays: Mapping[str, np.ndarray]) -> tuple[str, str]:
        """Names of the one matrix and the one vector among arrays."""
        matrices = [name for name, array in arrays.items() if array.ndim == 2]
        vectors = [name for name, array in arrays.items() if array.ndim == 1 and array.dtype.kind == "f"]
        if len(matrices) != 1 or len(vectors) != 1:
            raise LookupError(f"a dense layer has a matrix and a vector, but there are {sorted(arrays)}; override read")
        return matrices[0], vectors[0]


#: what a backend may lack -> what it is; those that users ask for by a setting must be refused with a ConfigError
FEATURES = {
    "gradients": "learns by losses and optimizers (scikit-learn's estimators do not)",
    "steps": "learns batch by batch (some estimators learn at once, from a whole data set)",
    "bias": "`Linear` has a bias (without: read gives zeros, write ignores it)",
    "several_outputs": "`Linear` may have more than one output",
    "dropout": "`Linear` can leave out inputs, with the framework's generator",
    "mlp": "`Mlp`",
    "two": "`Two`: several inputs and outputs",
    "nested": "`Nested`: nested inputs and outputs",
    "own_closure": "`ByHand`",
    "gan": "`Gan`: several optimizers",
    "absolute": "`absolute`",
    "cross_entropy": "`cross_entropy`",
    "adam": "`adam`",
    "hooks": "hooks inside the default closure",
    "loss_hooks": "hooks that change what is differentiated",
    "schedules": "`lr_scheduler_cls` (without: halving may use a callback)",
    "accumulation": "`gradient_accumulation_steps`",
    "clipping": "`gradient_clip_norm`, `gradient_clip_value`",
    "skip_nonfinite": '`nonfinite="skip"`',
    "rollback": '`nonfinite="rollback"`',
    "micro_batches": "`micro_batches`",
    "mixed_precision": '`mixed_precision="bf16"`',
    "average": "`ExponentialMovingAverage`",
    "compiled": "compiled steps: `compiled=True`",
    "freezing": "weights that are not learned",
    "named_weights": "weights by name",
    "export": "`delira.io.export`",
    "resume_inside": "checkpoints inside an epoch",
}


def check_filled_in(tested: BackendUnderTest) -> None:
    """Refuse what is no backend, and one not filled in: every check would fail for another reason than its own.

    Parameters
    ----------
    tested
        The backend.

    Raises
    ------
    ConfigError
        Naming what is missing or wrong.
    """
    owner = type(tested).__name__
    if not isinstance(tested, BackendUnderTest):
        raise ConfigError(f"backend is an instance of a subclass of BackendUnderTest, got {tested!r:.200}")
    if missing := [name for name in ("name", "trainer_cls", "experiment_cls", "Linear") if not hasattr(tested, name)]:
        raise ConfigError(f"{owner} has no {missing[0]}; fill it in, see delira.testing.BackendUnderTest")
    check_texts(owner, name=tested.name)
    if not isinstance(getattr(tested.trainer_cls, "backend", None), Backend):
        raise ConfigError(f"{owner}.trainer_cls is the trainer of a backend, got {tested.trainer_cls!r}")
    for name, value in (("experiment_cls", tested.experiment_cls), ("Linear", tested.Linear)):
        if not callable(value):
            raise ConfigError(f"{owner}.{name} is a class, got {value!r}")
    check_numbers(owner, at_least=0, rtol=tested.rtol)
    check_flags(owner, transposed=tested.transposed)
    if not isinstance(tested.exports, (tuple, list)) or not all(isinstance(ending, str) for ending in tested.exports):
        raise ConfigError(f"{owner}: exports is a tuple of endings, got {tested.exports!r}")
    if not isinstance(tested.lacks, Mapping) or not all(isinstance(reason, str) for reason in tested.lacks.values()):
        raise ConfigError(f"{owner}: lacks is a dictionary of features with reasons, got {tested.lacks!r}")
    if unknown := [feature for feature in tested.lacks if feature not in FEATURES]:
        raise ConfigError(f"{owner}.lacks names {unknown[0]!r}; features are {', '.join(FEATURES)}")
