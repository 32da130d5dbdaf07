"""What a program sets of a framework for the whole process, where it changes numbers: others compute by the same."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from delira.contract.devices import DevicesRole


@dataclasses.dataclass(frozen=True)
class Setting:
    """One setting of a framework, as a plain value: a text, a number, a flag or None."""

    read: Callable[[], Any]
    """Raises an ``AttributeError`` where this version of the framework has no such setting, and a ``RuntimeError``
    where it cannot tell."""
    write: Callable[[Any], object]
    usual: Any
    """What it is in a process that nobody has set anything in."""
    is_told: bool = True
    """Whether manifests tell it, and runs that go on are compared by it; not where it says on which device."""


#: of numpy, whatever the backend: metrics and transforms compute by it. What raises in one process must not be a
#: number in another one; a run that goes on may do without
_NUMPY = {
    "numpy_errors": Setting(
        np.geterr,
        lambda how: np.seterr(**how),
        {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"},
        is_told=False,
    )
}


def read_settings(known: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the settings of this process, by name, as far as they can be read.

    Parameters
    ----------
    known
        Those of a backend.
    """
    found = {}
    for name, setting in known.items():
        with contextlib.suppress(AttributeError, RuntimeError):
            found[name] = setting.read()
    return found


def unusual_settings(known: Mapping[str, Setting]) -> dict[str, Any]:
    """Return those settings of this process that a program has changed, for manifests."""
    told = {name: setting for name, setting in known.items() if setting.is_told}
    return {name: value for name, value in read_settings(told).items() if value != told[name].usual}


def settings_of(role: "type[DevicesRole]") -> dict[str, Setting]:
    """Return all settings of a process that computes with a backend, by name.

    Parameters
    ----------
    role
        Of its devices.
    """
    return {**_NUMPY, **role.process_settings}


class SettingsOfProcess:
    """What is pickled before anything else: where it is unpickled a process computes from then on by these settings.

    Arrays that come after it are already made by them: JAX would cut those of 64 bits. Nothing is imported that the
    backend is not made of, and what is so already stays untouched.

    Parameters
    ----------
    devices
        Of the backend.
    """

    def __init__(self, devices: "DevicesRole"):
        self._role = type(devices)

    def __reduce__(self) -> tuple[Any, ...]:
        return _take_over, (self._role, read_settings(settings_of(self._role)))


def put_back(role: "type[DevicesRole]", before: Mapping[str, Any]) -> list[str]:
    """Give a process the settings back that it had; returns the names of those that had changed.

    Parameters
    ----------
    role
        Of the devices of its backend.
    before
        What :func:`read_settings` has returned of them.
    """
    known = settings_of(role)
    changed = [name for name, value in before.items() if read_settings({name: known[name]}) != {name: value}]
    for name, value in before.items() if changed else ():  # all: one may change others
        with contextlib.suppress(RuntimeError, ValueError):  # what TensorFlow has begun to use stays
            _take_over(role, {name: value})
    return changed


def _take_over(role: "type[DevicesRole]", values: Mapping[str, Any]) -> None:
    """Set what differs, one after the other: some settings change others, which come after them."""
    known = settings_of(role)
    for name, value in values.items():
        setting = known.get(name)
        # what cannot be told because two spellings contradict each other is set as well
        if setting is not None and read_settings({name: setting}) != {name: value}:
            setting.write(value)
