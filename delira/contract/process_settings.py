"""What a program sets of a framework for the whole process, where it changes numbers: others compute by the same."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

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
    return {name: value for name, value in read_settings(known).items() if value != known[name].usual}


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
        return _take_over, (self._role, read_settings(self._role.process_settings))


def _take_over(role: "type[DevicesRole]", values: Mapping[str, Any]) -> None:
    """Set what differs, one after the other: some settings change others, which come after them."""
    for name, value in values.items():
        setting = role.process_settings.get(name)
        # what cannot be told because two spellings contradict each other is set as well
        if setting is not None and read_settings({name: setting}) != {name: value}:
            setting.write(value)
