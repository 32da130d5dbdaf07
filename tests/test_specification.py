"""Every backend keeps the promises of the public specification; the table is printed at the end of the run."""

import importlib
import logging
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from pairwise import every_second

from delira.errors import ConfigError
from delira.testing import check_backend, spec_checks
from delira.testing.spec import Check
from delira.testing.spec.__main__ import main

FOLDER = Path(__file__).parent / "spec_backends"
#: backend -> packages that its fixture needs
PACKAGES = {
    "torch": ["torch"],
    "torchscript": ["torch"],
    "tensorflow": ["tensorflow"],
    "jax": ["jax", "flax", "optax"],
    "sklearn": ["sklearn", "skops"],
}
#: the framework's compiler alone takes that long
SLOW = {("torch", "steps-compiles")}
BACKENDS = sorted((path.stem for path in FOLDER.glob("*.py")), key=["toy", *PACKAGES].index)


def cases() -> list:
    return [
        pytest.param(name, check, id=f"{name}-{check}", marks=[pytest.mark.slow] if (name, str(check)) in SLOW else [])
        for name in BACKENDS
        for check in spec_checks()
    ]


@pytest.mark.slow_cases("^(tensorflow|jax)-(?!steps)")
@pytest.mark.left_to_full(r"\[torchscript-(?!steps)")
@pytest.mark.left_to_full(every_second(f"jax-{check}" for check in spec_checks()))
@pytest.mark.parametrize(("name", "check"), cases())
def test_a_backend_keeps_the_promise(name: str, check: Check, record_property):
    for package in PACKAGES.get(name, ()):
        pytest.importorskip(package, reason=f"the {name} backend needs the package {package!r}, which is not installed")
    kit = importlib.import_module(f"spec_backends.{name}").BACKEND
    record_property("specification", [name, check.area, check.name, "failed"])
    kind, reason = check.run(kit)
    record_property("specification", [name, check.area, check.name, kind])
    if kind == "not offered":
        pytest.skip(f"the {name} backend does not offer it: {reason}")


def toy_kit():
    return importlib.import_module("spec_backends.toy").BACKEND


def test_a_class_is_no_backend():
    with pytest.raises(ConfigError, match=r"got the class \w+; write \w+\(\)"):
        check_backend(type(toy_kit()))


def test_a_report_is_a_table():
    report = check_backend(toy_kit(), only=["learning-is_gradient_descent", "is_adam", "compiles"])
    assert [outcome.kind for outcome in report] == ["passed", "not offered", "refused"]
    assert report.counts == {"passed": 1, "refused": 1, "not offered": 1, "failed": 0}
    assert (
        "| learning | Adam is Adam by hand, its bias corrections included. | not offered: one" in report.to_markdown()
    )
    assert str(report).endswith("toy: 1 passed, 1 refused, 1 not offered")


def test_broken_promises_are_raised_together_or_reported():
    class Wrong(type(toy_kit())):
        def read(self, network, layer=""):
            return 2 * network.weight, np.zeros(1)

    with pytest.raises(AssertionError, match=r"the backend 'toy' breaks 2 of 2 promises:\n.*descent.*\n.*momentum"):
        check_backend(Wrong(), only=["is_gradient_descent", "has_momentum"])
    report = check_backend(Wrong(), only="has_momentum", raises=False)
    assert [type(outcome.error) for outcome in report.failures] == [AssertionError]


def test_what_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="only='learnin' is no check and no area; areas are learning, steps"):
        check_backend(toy_kit(), only=["learning-learns", "learnin"])

    class Wrong(type(toy_kit())):
        lacks: ClassVar = {"wings": "no bird"}

    with pytest.raises(ConfigError, match=r"Wrong\.lacks names 'wings'; features are gradients"):
        spec_checks()[0].run(Wrong())


def test_a_check_leaves_no_trace():
    kit = toy_kit()
    log, before = logging.getLogger("delira"), (np.random.get_state()[1].copy(), kit.backend.generators.state())
    spec_checks()[0].run(kit)
    assert np.array_equal(before[0], np.random.get_state()[1])
    assert before[1] == kit.backend.generators.state()
    assert not log.disabled


def test_the_program_writes_the_table(tmp_path, capsys):
    path = tmp_path / "table.md"
    assert main(["spec_backends.toy", "--only", "compiles", "--only", "learns", "--output", str(path)]) == 0
    assert "toy: 1 passed, 1 refused" in capsys.readouterr().out
    text = path.read_text(encoding="utf-8")
    assert "| learning-learns | Training makes predictions better than the mean of the labels. | ✓ |" in text
    assert "- compiled steps: `compiled=True`: numpy has nothing to compile" in text
    with pytest.raises(ConfigError, match=r"spec_backends\.toy has no BackendUnderTest called 'Linear'"):
        main(["spec_backends.toy:Linear"])


def test_every_check_makes_one_promise():
    checks = spec_checks()
    assert len(checks) >= 100
    assert len({str(check) for check in checks}) == len({check.promise for check in checks}) == len(checks)
    assert all(check.promise.endswith(".") for check in checks)
