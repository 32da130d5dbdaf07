"""Every room keeps the promises of the public specification; the table is printed at the end of the run."""

import importlib
from pathlib import Path

import pytest

from delira.testing import spec_checks
from delira.testing.spec import Check

FOLDER = Path(__file__).parent / "spec_rooms"
#: room -> packages that its fixture needs
PACKAGES = {
    "torch": ["torch"],
    "torchscript": ["torch"],
    "tensorflow": ["tensorflow"],
    "jax": ["jax", "flax", "optax"],
    "sklearn": ["sklearn", "skops"],
}
#: the framework's compiler alone takes that long
SLOW = {("torch", "steps-compiles")}
ROOMS = sorted((path.stem for path in FOLDER.glob("*.py")), key=["toy", *PACKAGES].index)


def cases() -> list:
    return [
        pytest.param(name, check, id=f"{name}-{check}", marks=[pytest.mark.slow] if (name, str(check)) in SLOW else [])
        for name in ROOMS
        for check in spec_checks()
    ]


@pytest.mark.parametrize(("name", "check"), cases())
def test_a_room_keeps_the_promise(name: str, check: Check, record_property):
    for package in PACKAGES.get(name, ()):
        pytest.importorskip(package, reason=f"the {name} room needs the package {package!r}, which is not installed")
    room = importlib.import_module(f"spec_rooms.{name}").ROOM
    record_property("specification", [name, check.area, check.name, "failed"])
    kind, reason = check.run(room)
    record_property("specification", [name, check.area, check.name, kind])
    if kind == "not offered":
        pytest.skip(f"the {name} room does not offer it: {reason}")


def test_every_check_makes_one_promise():
    checks = spec_checks()
    assert len(checks) >= 100
    assert len({str(check) for check in checks}) == len({check.promise for check in checks}) == len(checks)
    assert all(check.promise.endswith(".") for check in checks)
