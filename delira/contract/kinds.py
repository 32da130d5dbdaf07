"""What the contract is written in: names of what frameworks and users bring, the base of all roles, and settings."""

import abc
import dataclasses
import difflib
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from delira.errors import ConfigError

if TYPE_CHECKING:
    from delira.contract.backend import Backend

#: a network: of delira, or a module of a framework
Network: TypeAlias = Any
#: an optimizer of a framework, or what a backend has wrapped it in
Optimizer: TypeAlias = Any
#: an array or a tensor of any framework
Array: TypeAlias = Any
#: arrays, or mappings and sequences of them at any depth
Tree: TypeAlias = Any
#: a data manager, or another iterable of batches
Data: TypeAlias = Any
#: a function of predictions and targets, or of the state
Criterion: TypeAlias = Any
#: things of one kind by their names: optimizers, losses, metrics, weights, the entries of a batch
ByName: TypeAlias = Mapping[str, Any]
#: what a user wrote to make the optimizers of a network, ``builder(network, optimizer_cls, **optimizer_params)``, if so
Builder: TypeAlias = Callable[..., dict[str, Any]] | None
#: what ``with`` takes, and gives nothing
Scope: TypeAlias = AbstractContextManager[None]
#: the closure of a network, or what a backend has made of it
Closure: TypeAlias = Callable[..., Any]


class Role(abc.ABC):
    """One part of a backend. The base class of each role is the plain case; a backend overrides what differs.

    Parameters
    ----------
    backend
        The backend it belongs to, whose other roles it may use.
    """

    role: ClassVar[str]
    """Name under which the backend has it."""

    def __init__(self, backend: "Backend") -> None:
        self.backend = backend

    def __init_subclass__(cls) -> None:
        """Refuse a method that is a verb of the role but for its spelling: nobody would call it."""
        super().__init_subclass__()
        verbs = {name for base in cls.__mro__[1:] for name in vars(base) if callable(getattr(base, name))}
        for name in [one for one in vars(cls) if one not in verbs and "_" not in one and callable(getattr(cls, one))]:
            # whoever writes the verb itself may call a helper like it
            if near := difflib.get_close_matches(name, sorted(verbs - vars(cls).keys()), n=1, cutoff=0.8):
                raise ConfigError(
                    f"the role {cls.__name__} has no verb {name!r}; did you mean {near[0]!r}? If it is a helper, "
                    f"call it _{name} (docs/own_backend.md)"
                )

    def lacking(self, what: str) -> ConfigError:
        """Return the error of a verb that the backend lacks; ``what`` says what it cannot do, and the cure."""
        return ConfigError(f"the backend {self.backend.name!r} {what}")


class Devices(NamedTuple):
    """Where inputs and where targets go."""

    input: Any
    output: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Defaults:
    """What is trained, and by what, where a user says nothing but "classify" or "regress"."""

    network: str
    """Full name of a ready network for rows of features; it takes ``n_features`` and ``n_outputs``."""

    losses: Mapping[str, Callable[[], Callable[..., Any]]]
    """``"classification"`` and ``"regression"`` -> what makes the loss: of logits and class numbers, and of values."""

    optimizer_cls: Any
    """Class of the optimizer."""

    rate: str
    """What it calls the learning rate."""


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
    """Leave out the update of a batch whose loss or gradients are infinite or not a number."""

    in_parts: bool = False
    """Batches may come in parts, which make one update."""

    def __post_init__(self) -> None:
        if self.precision not in ("32", "bf16", "fp16", "auto"):
            raise ConfigError(f"mixed_precision must be False, True, 'bf16' or 'fp16', got {self.precision!r}")
        steps = self.accumulation_steps
        if not isinstance(steps, int) or steps is True or steps < 1:
            raise ConfigError(f"gradient_accumulation_steps must be an integer of at least 1 (batch), got {steps!r}")
        for name in ("skip_nonfinite", "in_parts"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be True or False, got {getattr(self, name)!r}")
        for name in ("clip_norm", "clip_value"):
            value = getattr(self, name)
            is_number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
            if value is not None and not (is_number and value > 0):
                raise ConfigError(f"gradient_{name} must be above 0 (or None for no clipping), got {value!r}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompileConfig:
    """Whether the step is compiled, and how."""

    compiled: bool | ByName | None = None
    """True, False for plain Python (to debug), ``None`` for what the backend does by default; options of the
    framework's compiler mean True."""

    jit: bool = False
    """Let TensorFlow compile the step with XLA."""

    def __post_init__(self) -> None:
        if not isinstance(self.compiled, (bool, Mapping, type(None))):
            raise ConfigError(
                f"compiled must be True, False or a dict of options of the framework's compiler, got {self.compiled!r}"
            )
        if not isinstance(self.jit, bool):
            raise ConfigError(f"jit_compile must be True or False, got {self.jit!r}")
        if self.jit and self.compiled is False:
            raise ConfigError("jit_compile=True needs a compiled step; leave compiled=False out")
