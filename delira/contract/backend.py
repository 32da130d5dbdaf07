"""A backend: a handful of roles, and a few facts about its framework."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, ClassVar

from delira.contract.arrays import ArraysRole
from delira.contract.calls import CallsRole
from delira.contract.checkpoints import CheckpointsRole
from delira.contract.devices import DevicesRole
from delira.contract.export import ExportRole
from delira.contract.generators import GeneratorsRole
from delira.contract.kinds import ByName, Defaults, Role
from delira.contract.natives import NativesRole
from delira.contract.optimizers import OptimizersRole
from delira.contract.step import StepRole
from delira.contract.weights import WeightsRole
from delira.errors import ConfigError

#: the plain case of every role
PLAIN: tuple[type[Role], ...] = (
    DevicesRole,
    CallsRole,
    StepRole,
    OptimizersRole,
    ArraysRole,
    GeneratorsRole,
    WeightsRole,
    CheckpointsRole,
    ExportRole,
    NativesRole,
)
#: verbs that had other names when they were methods of the backend itself
RENAMED = {
    "devices": "devices.resolve",
    "devices_of": "devices.of",
    "device_memory": "devices.memory",
    "bind_step": "step.bind",
    "build_optimizers": "optimizers.build",
    "check_optimizers": "optimizers.check",
    "copy_optimizer": "optimizers.copy",
    "no_optimizer": "optimizers.none",
    "step_scope": "optimizers.scope",
    "generator_state": "generators.state",
    "set_generator_state": "generators.set_state",
    "named_weights": "weights.named",
    "load_named_weights": "weights.load_named",
    "portable_weights": "weights.portable",
    "load_portable_weights": "weights.load_portable",
    "write_checkpoint": "checkpoints.write",
    "read_checkpoint": "checkpoints.read",
    "export": "export.write",
}


class Backend:
    """The parts of a backend; the loop is written with nothing else.

    A backend object keeps nothing but the framework's generators: one instance serves all trainers of its backend.
    """

    roles: ClassVar[tuple[type[Role], ...]] = ()
    """Classes of its roles; of two for one role the last. A role that nobody else has is reached by its name, too."""

    devices: DevicesRole
    calls: CallsRole
    step: StepRole
    optimizers: OptimizersRole
    arrays: ArraysRole
    generators: GeneratorsRole
    weights: WeightsRole
    checkpoints: CheckpointsRole
    export: ExportRole
    natives: NativesRole

    name: str
    """Name of the backend."""

    title: str = ""
    """What messages call it; its name if that is empty."""

    checkpoint_suffix: str
    """Ending of checkpoint files, with the dot."""

    network_class: str = "the network class of a backend"
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

    schedules: ClassVar[ByName] = {}
    """Schedules of learning rates by the names of ``delira.training.callbacks``; empty: no rates to change."""

    defaults: ClassVar[Defaults | None] = None
    """Network, losses and optimizer of :mod:`delira.sklearn` where its user names none; None: they must be named."""

    trace: ClassVar[Callable[..., AbstractContextManager[None]] | None] = None
    """``trace(folder)``: scope in which the framework's own profiler leaves a trace in a folder; None: it has none."""

    write_graph: ClassVar[Callable[..., None] | None] = None
    """``write_graph(writer, network, call, leaves)`` for a writer of TensorBoard; None: networks have no graph."""

    free_image: ClassVar[Any] = None
    """``free_image(pixels, compute)``: a network with one weight, ``image``, that called with a state returns
    ``compute(pixels, state)``; ``make_optimizer()`` gives one for it, and ``keywords`` are those with which ``compute``
    calls networks, so that they predict. None: there are no gradients of inputs.
    """

    def __init__(self) -> None:
        self.title = self.title or self.name
        roles = {role.role: role for role in (*PLAIN, *self.roles)}
        if lacks := [f"{role.__name__}.{verb}" for role in roles.values() for verb in sorted(role.__abstractmethods__)]:
            raise ConfigError(
                f"the backend {self.name!r} lacks the verbs {', '.join(lacks)}: derive a class from each of these "
                "roles, write its verbs, and name it in roles (docs/own_backend.md)"
            )
        for name, role in roles.items():
            setattr(self, name, role(self))

    def __init_subclass__(cls) -> None:
        """Refuse a backend whose verbs are methods of its own or of its bases, as they once were."""
        # roles in the order of bases have their verbs rightly; Backend, and what delira derives from it, has none
        bases = [base for base in cls.__mro__ if not issubclass(base, Role)]
        names = dict.fromkeys(name for base in bases for name in vars(base))
        if old := [f"{name} -> {place}" for name in names if (place := place_of(name)) is not None]:
            raise ConfigError(
                f"the verbs of the backend {cls.__name__} are methods of its roles now: derive a class from each role "
                f"in delira.contract, name them in roles, and move and rename {', '.join(old)} (docs/own_backend.md)"
            )

    def __getattr__(self, name: str) -> Any:
        """Show verbs under the names that they had on the backend itself, for callbacks of others."""
        if (place := place_of(name)) is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        role, _, verb = place.partition(".")
        return getattr(getattr(self, role), verb)


def place_of(verb: str) -> str | None:
    """The role and the name that a verb of old backends has now, as ``role.verb``; None for other names."""
    if verb in RENAMED:
        return RENAMED[verb]
    role = next((one for one in PLAIN if verb in vars(one) and callable(getattr(one, verb)) and verb[0] != "_"), None)
    return None if role is None else f"{role.role}.{verb}"


def roles_in(*modules: ModuleType) -> tuple[type[Role], ...]:
    """The classes of roles that modules define, for :attr:`Backend.roles` of a backend with a module for each role.

    Parameters
    ----------
    *modules
        The modules, in any order.
    """
    return tuple(
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Role) and value.__module__ == module.__name__
    )
