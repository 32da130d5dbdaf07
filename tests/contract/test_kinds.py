"""Roles, of which one is made only if it has what the plain case lacks, and settings of a step that cannot be."""

import pytest

from delira.contract import CallsRole, CompileConfig, DevicesRole, GeneratorsRole, OptimizersRole, Role, UpdateConfig
from delira.contract.backend import PLAIN
from delira.errors import ConfigError
from delira.testing.toy.backend import BACKEND


def test_a_role_knows_the_backend_it_was_made_for():
    backend = object()
    assert DevicesRole(backend).backend is backend


def test_every_role_has_a_name_of_its_own():
    names = [role.role for role in PLAIN]
    assert len(set(names)) == len(names)
    assert all(isinstance(getattr(BACKEND, name), Role) for name in names)


@pytest.mark.parametrize("role", [CallsRole, GeneratorsRole, OptimizersRole])
def test_a_role_without_a_plain_case_cannot_be_made(role):
    with pytest.raises(TypeError, match="abstract"):
        role(BACKEND)


def test_what_is_not_said_is_the_plain_case():
    assert UpdateConfig() == UpdateConfig(
        precision="32", accumulation_steps=1, clip_norm=None, clip_value=None, skip_nonfinite=False, in_parts=False
    )
    assert CompileConfig() == CompileConfig(compiled=None, jit=False)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"precision": "16"}, "mixed_precision must be False, True, 'bf16' or 'fp16', got '16'"),
        ({"accumulation_steps": 0}, "gradient_accumulation_steps must be an integer of at least 1"),
        ({"accumulation_steps": True}, "gradient_accumulation_steps must be an integer of at least 1"),
        ({"skip_nonfinite": 1}, "skip_nonfinite must be True or False, got 1"),
        ({"in_parts": None}, "in_parts must be True or False, got None"),
        ({"clip_norm": 0}, "gradient_clip_norm must be above 0"),
        ({"clip_norm": True}, "gradient_clip_norm must be above 0"),
        ({"clip_value": float("inf")}, "gradient_clip_value must be above 0"),
    ],
    ids=str,
)
def test_updates_that_cannot_be_are_refused(settings, match):
    with pytest.raises(ConfigError, match=match):
        UpdateConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"compiled": "yes"}, "compiled must be True, False or a dict of options"),
        ({"jit": 1}, "jit_compile must be True or False, got 1"),
        ({"compiled": False, "jit": True}, "jit_compile=True needs a compiled step"),
    ],
    ids=str,
)
def test_compilations_that_cannot_be_are_refused(settings, match):
    with pytest.raises(ConfigError, match=match):
        CompileConfig(**settings)


def test_options_of_a_compiler_mean_that_it_compiles():
    assert CompileConfig(compiled={"fullgraph": True}, jit=True).compiled == {"fullgraph": True}
