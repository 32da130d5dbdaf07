"""The verbs a room must speak."""

import abc
import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from delira.contract.settings import CompileConfig, Devices, UpdateConfig
from delira.contract.step import Step, call_metrics
from delira.contract.trial_verbs import TrialVerbs
from delira.errors import ConfigError
from delira.io.container import read_tree, write_tree


class Backend(TrialVerbs, abc.ABC):
    """The verbs a room must speak; the loop is written with nothing else.

    A backend object keeps nothing but the framework's generators: one instance serves all trainers of its room.
    """

    name: str
    """Name of the room."""

    checkpoint_suffix: str
    """Ending of checkpoint files, with the dot."""

    network_class: str = "the network class of a room"
    """Full name of the class that networks subclass, for messages."""

    packages: tuple[str, ...] = ()
    """Packages of the framework: optimizers, schedules and losses of another one are refused if they are named."""

    other_suffixes: tuple[str, ...] = ()
    """Endings of names that users may give to checkpoints, in place of ``checkpoint_suffix``, the longest first."""

    channels_last: bool = False
    """Whether images have their channels last where networks of the framework compute."""

    compiles: bool = False
    """Whether steps are compiled unless the user says otherwise."""

    is_differentiable: bool = True
    """Whether networks learn by losses and optimizers; if not, a training may have neither."""

    schedules: ClassVar[Mapping[str, Any]] = {}
    """Schedules of learning rates by the names of ``delira.training.callbacks``; empty: no rates to change."""

    trace: ClassVar[Callable[..., AbstractContextManager[None]] | None] = None
    """``trace(folder)``: scope in which the framework's own profiler leaves a trace in a folder; None: it has none."""

    write_graph: ClassVar[Callable[..., None] | None] = None
    """``write_graph(writer, network, call, leaves)`` for a writer of TensorBoard; None: networks have no graph."""

    free_image: ClassVar[Any] = None
    """``free_image(pixels, compute)``: a network with one weight, ``image``, that called with a state returns
    ``compute(pixels, state)``; ``make_optimizer()`` gives one for it, and ``keywords`` are those with which ``compute``
    calls networks, so that they predict. None: there are no gradients of inputs.
    """

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

    def set_evaluating(self, network: Any) -> None:
        """Put the network into evaluation mode for good: called at the end of a training. Nothing to do where a network
        predicts unless it is told to learn.
        """
        return

    def threads(self, number: int | None) -> AbstractContextManager[None]:
        """Scope in which the framework computes with ``number`` threads (``None``: leave it alone)."""
        if number is not None:
            raise ConfigError(f"the room {self.name!r} cannot choose the number of threads; leave num_threads out")
        return contextlib.nullcontext()

    def thread_count(self) -> int | None:
        """Number of CPU threads the framework computes with, if it can tell."""
        return None

    def synchronize(self, devices: Devices) -> None:
        """Return when the devices have done what they were given: only then does a clock tell what it took."""
        return

    def device_memory(self, devices: Devices) -> int | None:
        """Bytes that the framework holds on an accelerator; ``None`` on the CPU, or if it cannot tell."""
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

    def shuffles(self, network: Any) -> bool:
        """Return True if a network learns from samples in another order in each epoch."""
        return True

    def is_ready(self, network: Any) -> bool:
        """Whether the network can predict; an estimator that was never fitted cannot."""
        return True

    def forward(self, network: Any, inputs: Mapping[str, Any]) -> Any:
        """Call the network."""
        return self.call_apart(network, inputs, lambda own: network(**own))

    def call_apart(self, network: Any, inputs: Any, call: Callable[[Any], Any]) -> Any:
        """Call with inputs that stay what they are, also if the network works in place: they are read afterwards.

        ``call`` gets the tree of inputs, or a copy of it. Where arrays cannot be changed, there is nothing to do.
        """
        return call(inputs)

    def added_losses(self, network: Any) -> Mapping[str, Any]:
        """What the network itself adds to the loss in the call before, e.g. regularisation, as one-number losses."""
        return {}

    def outputs(self, network: Any, outputs: Any) -> Any:
        """What the network returned, in the number format in which losses are computed."""
        return outputs

    def learn(
        self,
        optimizer: Any,
        step: Step,
        compute: Callable[[Step], Step],
        backward: Sequence[Callable[[Step], None]],
    ) -> None:
        """Compute the step, differentiate the sum of its losses, and let the optimizer update, for the default closure.

        Parameters
        ----------
        optimizer
            One of those that :meth:`build_optimizers` made.
        step
            The step that begins; afterwards it has predictions and losses.
        compute
            Fills predictions and losses of a step; it may be called more than once, with a new step each time.
        backward
            Hooks of the gradients, which see and set ``step.gradients``.
        """
        raise ConfigError(f"networks of the room {self.name!r} learn by a closure of their own")

    def predict(self, step: Step, compute: Callable[[Step], Step]) -> None:
        """Compute a step from which nothing is learned, for the default closure."""
        compute(step)

    def values(self, step: Step) -> tuple[dict[str, Any], dict[str, Any]]:
        """Predictions and losses of a step, cut off from the gradients."""
        return dict(step.predictions), dict(step.losses)

    def measure(
        self,
        metrics: Mapping[str, Any],
        metric_keys: Mapping[str, Sequence[str]],
        predictions: Mapping[str, Any],
        batch: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The training metrics of a step, without gradients."""
        return call_metrics(metrics, metric_keys, predictions, batch)

    def bind_step(
        self, closure: Callable[..., Any], network: Any, arguments: Mapping[str, Any], compiling: CompileConfig
    ) -> Callable[[dict[str, Any], Mapping[str, int]], Any]:
        """The closure as it is called at every step, ``step(batch, counters)``, compiled where the room does so.

        ``arguments`` (optimizers, losses, hooks, …) stay the same; only those the closure takes are there. A
        compiled step contains Python as it was when it was traced: the room leaves out what is no array of a
        batch, passes counters, as 0-d arrays, only to closures that name them, and runs the closure as
        it is if ``hooks`` are not traceable, and says so.
        """
        if compiling.compiled or compiling.jit:
            raise ConfigError(f"the room {self.name!r} does not compile steps; leave compile and jit_compile out")

        def step(batch: dict[str, Any], counters: Mapping[str, int]) -> Any:
            return closure(network, batch, **arguments, **counters)

        return step

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

    def step_scope(
        self, optimizers: Mapping[str, Any], n_samples: int, is_last: bool, part: bool = False
    ) -> AbstractContextManager[None]:
        """Scope of one closure call: number format, place in the accumulation.

        ``n_samples`` is the size of the batch; ``is_last`` says that the epoch ends with it; ``part`` that it is a
        part of a batch with more to come, so that no optimizer updates yet. Each part has a scope of its own.
        """
        return contextlib.nullcontext()

    def leaving_out(self, network: Any, optimizers: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Scope of one step that may be left out (``nonfinite="skip"``): what the network notes of a batch is taken
        back then.
        """
        return contextlib.nullcontext()

    def count_left_out(self, optimizers: Mapping[str, Any]) -> int:
        """Batches so far that were left out of updates, because of numbers that are not finite."""
        return 0

    def discard_parts(self, optimizers: Mapping[str, Any]) -> bool:
        """Forget the gradients of the parts of the batch at hand.

        Returns whether the batch can be computed again: not if an optimizer has updated with it.
        """
        return False

    def finish_epoch(self, optimizers: Mapping[str, Any]) -> None:
        """Apply what is still accumulated, for epochs whose length was not known."""
        return

    def learning_rates(self, optimizers: Mapping[str, Any]) -> dict[str, float]:
        """``{"lr": …}``, or ``{"lr_<name>": …}`` where there are several optimizers.

        The history has them, so a room with optimizers writes this.
        """
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

    def concatenate(self, trees: Sequence[Any]) -> Any:
        """One tree of arrays out of those of the parts of a batch, along the samples.

        A prepared batch is cut by ``array[start:stop]``; ``len(array)`` is its number of samples, and what has
        ``shape == ()`` is not cut.
        """
        raise ConfigError(f"the room {self.name!r} cannot compute batches in parts; leave micro_batches out")

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

    def not_resumable(self, network: Any) -> str | None:
        """Why a training of the network cannot be continued inside an epoch, if it cannot: for its generators."""
        return None

    def prepare_deterministic(self) -> None:
        """Choose what :meth:`deterministic` needs and has to be chosen before the device is used."""
        return

    def deterministic(self) -> AbstractContextManager[None]:
        """Scope in which the framework uses only algorithms that give the same bits every time."""
        return contextlib.nullcontext()

    # ------------------------------------------------------------------ guards

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether an error says that the memory of the device did not suffice."""
        return isinstance(error, MemoryError)

    def free_memory(self) -> None:
        """Give memory that is kept for later back to the device."""
        return

    def explain(self, error: BaseException) -> str | None:
        """What a user can do about an error of the framework, if the room knows."""
        return None

    def nonfinite(self, weights: Mapping[str, Any]) -> list[str]:
        """Names of the weights that hold an infinite value or none that is a number."""
        arrays = self.to_numpy(dict(weights))
        with np.errstate(over="ignore", invalid="ignore"):  # a sum is fast, and finite only if all of it is
            suspects = [name for name, array in arrays.items() if not np.isfinite(np.sum(array))]
        return [name for name in suspects if not np.isfinite(arrays[name]).all()]

    def scale_rates(self, optimizers: Mapping[str, Any], factor: float) -> None:
        """Multiply the learning rates."""
        raise ConfigError(f"the room {self.name!r} cannot change learning rates, so nonfinite='rollback' does not work")

    def average(self, average: Any, network: Any, decay: float) -> dict[str, Any]:
        """Move an average of the learned weights by ``1 - decay`` towards the network's; ``None`` begins with a copy.

        Returns a dict by the names of ``state_tree(...)["model"]``; it may be the one that was passed, changed in
        place. Averages follow ``num_updates`` of the optimizers; where they have none, every step is an update.
        """
        raise ConfigError(f"the room {self.name!r} cannot average weights")

    def statistics_names(self, network: Any) -> frozenset[str]:
        """Names of the entries of ``state_tree(...)["model"]`` that are running statistics of the data, as those of
        batch normalisation: they belong to the weights they were seen with. None as long as they have no shape.
        """
        return frozenset()

    def renew_statistics(self, network: Any, calls: Iterable[Callable[[], Any]]) -> None:
        """Let the running statistics be the mean over some calls of the network, in the scope of :meth:`training`.

        Each of ``calls`` calls the network on a batch; each call of a layer counts alike, and those from before not at
        all. Statistics that no call reaches stay, and without calls all do; what cannot be computed anew is refused
        all the same. What else of the network changes is the trainer's to restore.
        """
        raise ConfigError(f"{self.name!r} cannot compute running statistics anew; set update_statistics=False")

    # ------------------------------------------------------------------ checkpoints

    def learned_names(self, network: Any) -> frozenset[str]:
        """Names of the entries of ``state_tree(...)["model"]`` that the training changes by gradients.

        Resuming and rolling back read them, so a room with optimizers writes this.
        """
        return frozenset()

    def learned_weights(self, network: Any) -> dict[str, Any]:
        """The learned weights by name: arrays through which gradients go, inside of a step, too."""
        learned = self.learned_names(network)
        return {name: value for name, value in self.state_tree(network, {})["model"].items() if name in learned}

    def set_learned_names(self, network: Any, names: frozenset[str]) -> None:
        """Freeze and unfreeze weights, so that ``learned_names`` are these."""
        return

    def snapshot(self, tree: Any, previous: Any = None) -> Any:
        """A copy of a checkpoint tree on the host that later training cannot change.

        ``previous`` is a snapshot that is no longer needed; its memory may be used again.
        """
        return copy.deepcopy(tree)

    @abc.abstractmethod
    def state_tree(self, network: Any, optimizers: Mapping[str, Any]) -> dict[str, Any]:
        """``{"model": …, "optimizer": {name: …}}`` and whatever else the room must keep, as a tree.

        It may hold the arrays of the network themselves: where they must not change, the trainer takes a
        :meth:`snapshot`. Generators that belong to a layer are part of ``"model"``.
        """

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

    def further_files(self, network: Any) -> Mapping[str, Callable[[BinaryIO, Mapping[str, Any]], None]]:
        """What is written beside each checkpoint, for other programs: ending of the file -> writer of a tree.

        Nothing is continued from these files: the checkpoint alone holds all.
        """
        return {}

    # ------------------------------------------------------------------ for other programs

    def export(self, network: Any, path: Path, example: Mapping[str, Any]) -> None:
        """Write the network as a program that runs without delira; ``path`` says the format by its ending.

        ``example`` holds arguments of the network by name.
        """
        raise ConfigError(f"networks of the room {self.name!r} cannot be exported")

    def named_weights(self, network: Any) -> dict[str, np.ndarray]:
        """Copies of all weights by name, as arrays."""
        raise ConfigError(f"the room {self.name!r} does not show its weights by name")

    def load_named_weights(self, network: Any, weights: Mapping[str, np.ndarray]) -> None:
        """Put weights by name into the network; refuses others than its own, and changes nothing then."""
        raise ConfigError(f"the room {self.name!r} does not take weights by name")

    def portable_weights(self, network: Any) -> dict[str, np.ndarray]:
        """Copies of all weights by attribute path, in the layout that every room understands.

        That is PyTorch's: ``weight`` of a dense layer of shape (out, in), of a convolution (out, in, kernel axes), of
        a transposed one (in, out, kernel axes), and ``bias``; of a normalisation ``weight``, ``bias``,
        ``running_mean``, ``running_var``; of an embedding ``weight`` (entries, features). Counters and states of
        generators are none.
        """
        return self.named_weights(network)

    def load_portable_weights(self, network: Any, weights: Mapping[str, np.ndarray]) -> None:
        """Put weights of :meth:`portable_weights` into the network; names and shapes fit."""
        self.load_named_weights(network, weights)

    def layers(self, network: Any) -> dict[str, Any]:
        """The layers that hold weights, under the paths that :meth:`portable_weights` has for them; ``""``: itself."""
        raise ConfigError(f"the room {self.name!r} does not show its layers")

    def layer_settings(self, layer: Any) -> Mapping[str, Any]:
        """What a layer computes with besides weights, in the words of :mod:`delira.models.layer_settings`."""
        return {}
