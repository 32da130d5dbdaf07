"""A role belongs to one backend, and is made only if it has what the plain case lacks."""

import pytest

from delira.contract import CallsRole, DevicesRole, GeneratorsRole, OptimizersRole, Role
from delira.contract.backend import PLAIN
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
