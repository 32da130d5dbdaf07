"""The contract between the training loop and a room: what each side may expect of the other."""

import abc
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from delira.errors import ConfigError, MissingKeyError, NetworkError
from delira.io.container import read_tree, write_tree

#: entries a loss reads if ``loss_keys`` does not say otherwise: (prediction, target)
DEFAULT_LOSS_KEYS = ("pred", "label")
#: entries a metric reads if ``metric_keys`` does not say otherwise: (target, prediction)
DEFAULT_METRIC_KEYS = ("label", "pred")


class Devices(NamedTuple):
    """Where inputs and where targets go."""

    input: Any
    output: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class UpdateConfig:
    """How gradients become an update."""

    precision: str = "32"
    """Number format of the forward pass: ``"32"``, ``"bf16"``, ``"fp16"``, or ``"auto"`` for the device's best."""

    accumulation_steps: int = 1
    """Batches whose gradients are combined, weighted by their samples, into one update."""

    clip_norm: float | None = None
    """Largest 2-norm of all gradients of an optimizer together."""

    clip_value: float | None = None
    """Largest absolute value of a gradient entry."""

    skip_nonfinite: bool = False
    """Leave out the update of a batch whose loss is infinite or not a number."""

    def __post_init__(self) -> None:
        if self.precision not in ("32", "bf16", "fp16", "auto"):
            raise ConfigError(f"mixed_precision must be False, True, 'bf16' or 'fp16', got {self.precision!r}")
        if not isinstance(self.accumulation_steps, int) or self.accumulation_steps < 1:
            raise ConfigError(
                f"gradient_accumulation_steps must be an integer of at least 1 (batch), got {self.accumulation_steps!r}"
            )
        for name in ("clip_norm", "clip_value"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise ConfigError(f"gradient_{name} must be above 0 (or None for no clipping), got {value!r}")


@dataclasses.dataclass
class Step:
    """One step as the hooks inside it see it; a hook changes it by assignment."""

    network: Any
    batch: dict[str, Any]
    """The prepared batch."""
    predictions: Any = None
    losses: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Loss values by name; their sum is differentiated."""


@dataclasses.dataclass(frozen=True)
class StepHooks:
    """Functions of a :class:`Step` that run inside a room's default closure.

    ``sample`` runs on the prepared batch, ``forward`` on the predictions, ``criterion`` on the losses
    before they are differentiated, ``backward`` when the gradients are there. A compiled step freezes
    Python: it is used only if every hook has a true attribute ``traceable``.
    """

    sample: tuple[Callable[[Step], None], ...] = ()
    forward: tuple[Callable[[Step], None], ...] = ()
    criterion: tuple[Callable[[Step], None], ...] = ()
    backward: tuple[Callable[[Step], None], ...] = ()

    @property
    def traceable(self) -> bool:
        """Whether a compiled step may contain all of the hooks."""
        every = (*self.sample, *self.forward, *self.criterion, *self.backward)
        return all(getattr(hook, "traceable", False) for hook in every)


NO_HOOKS = StepHooks()


def look_up(kind: str, name: str, keys: Iterable[str], *sources: Mapping[str, Any]) -> list[Any]:
    """Find each key that a loss or metric reads in the first of ``sources`` that has it.

    Parameters
    ----------
    kind, name
        ``"loss"`` or ``"metric"``, and which.
    keys
        The entries it reads.
    *sources
        Batch and predictions, in the order in which they are searched.

    Raises
    ------
    MissingKeyError
        Naming who reads the key and what there is.
    """
    found = []
    for key in keys:
        for source in sources:
            if key in source:
                found.append(source[key])
                break
        else:
            there = sorted({str(entry) for source in sources for entry in source})
            order = "(prediction, target)" if kind == "loss" else "(target, prediction)"
            raise MissingKeyError(
                f"{kind} {name!r} reads {key!r}, but there are only {there}; set {kind}_keys={{{name!r}: {order}}}"
            )
    return found


def select_inputs(key_mapping: Mapping[str, str], batch: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a network, taken out of a prepared batch.

    Raises
    ------
    MissingKeyError
        If the batch lacks an entry of ``key_mapping``.
    """
    try:
        return {argument: batch[key] for argument, key in key_mapping.items()}
    except KeyError as error:
        raise MissingKeyError(
            f"key_mapping={dict(key_mapping)} reads {error.args[0]!r}, but the batch has only {sorted(batch)}; "
            "set key_mapping={argument of the network: entry of the batch}"
        ) from error


def named_outputs(network: Any, predictions: Any) -> Mapping[str, Any]:
    """Refuse what a network returned if it is no mapping.

    Raises
    ------
    NetworkError
        Naming the network.
    """
    if type(predictions) is not dict and not isinstance(predictions, Mapping):
        raise NetworkError(
            f"{type(network).__name__} returned a {type(predictions).__name__}; a network returns a dict of named "
            "outputs, e.g. {'pred': output}"
        )
    return predictions


def call_losses(
    losses: Mapping[str, Callable[..., Any]],
    loss_keys: Mapping[str, Sequence[str]],
    predictions: Mapping[str, Any],
    batch: Mapping[str, Any],
) -> dict[str, Any]:
    """Evaluate every loss on the entries it reads; an error of a loss is told its name and what it read."""
    values = {}
    for name, loss in losses.items():
        read = look_up("loss", name, loss_keys.get(name, DEFAULT_LOSS_KEYS), predictions, batch)
        try:
            values[name] = loss(*read)
        except Exception as error:
            error.add_note(f"while loss {name!r} read {', '.join(map(_describe, read))}")
            raise
    return values


def _describe(value: Any) -> str:
    """Type, shape and dtype of an array of any framework."""
    if not hasattr(value, "shape"):
        return type(value).__name__
    return f"{type(value).__name__} of shape {tuple(value.shape)} and dtype {getattr(value, 'dtype', '?')}"


def call_metrics(
    metrics: Mapping[str, Callable[..., Any]],
    metric_keys: Mapping[str, Sequence[str]],
    predictions: Mapping[str, Any],
    batch: Mapping[str, Any],
) -> dict[str, Any]:
    """Evaluate every training metric of a step; batch entries go before predictions of the same name."""
    values = {}
    for name, metric in metrics.items():
        values[name] = metric(*look_up("metric", name, metric_keys.get(name, DEFAULT_METRIC_KEYS), batch, predictions))
    return values


class Backend(abc.ABC):
    """The verbs a room must speak; the loop is written with nothing else.

    A backend object keeps nothing but the framework's generators: one instance serves all trainers of its room.
    """

    name: str
    """Name of the room."""

    checkpoint_suffix: str
    """Ending of checkpoint files, with the dot."""

    # ------------------------------------------------------------------ devices and modes

    @abc.abstractmethod
    def devices(self, gpu_ids: Sequence[int], device: str | None) -> Devices:
        """Resolve the historic ``gpu_ids`` or the modern ``device``; an absent GPU is an error."""

    @abc.abstractmethod
    def devices_of(self, network: Any) -> Devices:
        """Where the network is."""

    @abc.abstractmethod
    def place(self, network: Any, losses: Mapping[str, Any], devices: Devices) -> Any:
        """Move the network, and losses that hold arrays, to their devices."""

    @abc.abstractmethod
    def training(self, network: Any) -> AbstractContextManager[None]:
        """Scope in which the network learns."""

    @abc.abstractmethod
    def evaluating(self, network: Any) -> AbstractContextManager[None]:
        """Scope in which the network only predicts: evaluation mode, no gradients; both restored after."""

    def threads(self, number: int | None) -> AbstractContextManager[None]:
        """Scope in which the framework computes with ``number`` threads (``None``: leave it alone)."""
        return contextlib.nullcontext()

    def thread_count(self) -> int | None:
        """Number of CPU threads the framework computes with, if it can tell."""
        return None

    # ------------------------------------------------------------------ the step

    def feed(
        self, batches: Iterable[Mapping[str, Any]], prepare: Callable[[Mapping[str, Any]], dict[str, Any]]
    ) -> Iterator[tuple[Mapping[str, Any], dict[str, Any] | None]]:
        """Yield each batch, with what ``prepare`` makes of it where that was done ahead, else with None.

        A room whose device copies while it computes prepares the next batch during a step, if that draws no
        random numbers and changes nothing.
        """
        return ((batch, None) for batch in batches)

    @abc.abstractmethod
    def key_mapping(self, network: Any) -> dict[str, str]:
        """Argument of the network -> batch entry, if the user did not say."""

    def forward(self, network: Any, inputs: Mapping[str, Any]) -> Any:
        """Call the network."""
        return network(**inputs)

    @abc.abstractmethod
    def build_optimizers(
        self,
        network: Any,
        builder: Callable[..., dict[str, Any]] | None,
        optimizer_cls: Any,
        optimizer_params: Mapping[str, Any],
        update: UpdateConfig,
    ) -> dict[str, Any]:
        """Create the named optimizers of the network."""

    def build_schedules(self, optimizers: Mapping[str, Any], cls: Any, params: Mapping[str, Any]) -> list[Any]:
        """One schedule callback for each optimizer."""
        raise ConfigError(f"the room {self.name!r} has no learning-rate schedules; leave lr_scheduler_cls out")

    def step_scope(self, optimizers: Mapping[str, Any], n_samples: int, is_last: bool) -> AbstractContextManager[None]:
        """Scope of one closure call: number format, place in the accumulation.

        ``n_samples`` is the size of the batch; ``is_last`` says that the epoch ends with it.
        """
        return contextlib.nullcontext()

    def finish_epoch(self, optimizers: Mapping[str, Any]) -> None:
        """Apply what is still accumulated, for epochs whose length was not known."""
        return

    def learning_rates(self, optimizers: Mapping[str, Any]) -> dict[str, float]:
        """``{"lr": …}``, or ``{"lr_<name>": …}`` where there are several optimizers."""
        return {}

    def arguments_of(self, network: Any) -> frozenset[str] | None:
        """Names of the arguments a network takes; ``None`` if it takes any."""
        return None

    def is_mistake(self, warning: str) -> bool:
        """Whether a warning of the framework, given while a loss was tried, means that the loss is wrong."""
        return False

    # ------------------------------------------------------------------ values

    @abc.abstractmethod
    def to_numpy(self, tree: Any) -> Any:
        """Turn every tensor of a nested structure into a numpy array on the host."""

    @abc.abstractmethod
    def read_scalars(self, values: Sequence[Any]) -> np.ndarray:
        """Bring many single values to the host at once, as float64 of shape ``(len(values),)``."""

    # ------------------------------------------------------------------ generators

    @abc.abstractmethod
    def seed(self, seed: int) -> None:
        """Seed every random generator of the framework; ``0 <= seed < 2**63``."""

    @abc.abstractmethod
    def generator_state(self) -> Any:
        """State of all generators of the framework, as a checkpoint tree."""

    @abc.abstractmethod
    def set_generator_state(self, state: Any) -> None:
        """Give the generators a state read by :meth:`generator_state`."""

    # ------------------------------------------------------------------ checkpoints

    @abc.abstractmethod
    def state_tree(self, network: Any, optimizers: Mapping[str, Any]) -> dict[str, Any]:
        """``{"model": …, "optimizer": {name: …}}`` and whatever else the room must keep, as a tree."""

    @abc.abstractmethod
    def load_state_tree(self, tree: Mapping[str, Any], network: Any, optimizers: Mapping[str, Any]) -> None:
        """Put a tree back; optimizers that are not passed are left alone.

        Raises
        ------
        CheckpointError
            If the weights do not fit the network, naming the entries; nothing is changed then.
        """

    def write_checkpoint(self, file: BinaryIO, tree: Mapping[str, Any]) -> None:
        """Serialise a checkpoint tree."""
        write_tree(file, tree)

    def read_checkpoint(self, path: Path) -> dict[str, Any]:
        """Read a checkpoint tree whose file was verified; executes nothing that the file says."""
        return read_tree(path)
