"""A backend is a handful of roles: made, replaced, added to, and refused in its old form."""

import re
from pathlib import Path

import pytest

import delira
from delira.contract import ArraysRole, Backend, CallsRole, DevicesRole, Role, StepRole
from delira.contract.backend import PLAIN, RENAMED, place_of
from delira.errors import ConfigError
from delira.testing import ToyBackend
from delira.testing.toy.backend import BACKEND


class Mesh(Role):
    """A role that no other backend has."""

    role = "mesh"

    def size(self) -> int:
        return len(self.backend.name)


class Loud(ArraysRole):
    def to_numpy(self, tree):
        return "loud"


class Wider(ToyBackend):
    """The toy with one role more, and one replaced."""

    name = "wider"
    roles = (*ToyBackend.roles, Mesh, Loud)


def test_every_role_is_reached_by_its_name_and_knows_its_backend():
    backend = ToyBackend()
    for plain in PLAIN:
        role = getattr(backend, plain.role)
        assert isinstance(role, plain)
        assert role.backend is backend


def test_a_role_may_be_added_without_touching_the_others():
    assert Wider().mesh.size() == 5
    assert not hasattr(BACKEND, "mesh")
    assert {name: type(role) for name, role in vars(Wider()).items() if name in ("calls", "weights")} == {
        "calls": type(BACKEND.calls),
        "weights": type(BACKEND.weights),
    }


def test_of_two_classes_for_one_role_the_last_counts():
    assert Wider().arrays.to_numpy([1]) == "loud"
    assert ToyBackend().arrays.to_numpy([1]) == [1]


def test_the_plain_case_computes_on_the_cpu():
    backend = ToyBackend()
    assert type(backend.devices) is DevicesRole
    assert backend.devices.resolve((), "auto") == ("cpu", "cpu")
    with pytest.raises(ConfigError, match=r"the toy backend computes on the CPU only, got gpu_ids=\[1\]"):
        backend.devices.resolve([1], None)


def test_a_backend_is_told_all_verbs_that_its_roles_lack():
    class Calls(CallsRole):
        def evaluating(self, network):
            """Only one of the two."""

    class Unfinished(Backend):
        name = "unfinished"
        roles = (Calls,)

    text = (
        r"'unfinished' lacks the verbs Calls\.training, OptimizersRole\.build, GeneratorsRole\.seed, .*own_backend\.md"
    )
    with pytest.raises(ConfigError, match=text):
        Unfinished()


def test_a_misspelt_verb_is_refused_with_a_guess():
    with pytest.raises(ConfigError, match=r"Typo has no verb 'lern'; did you mean 'learn'\?.*call it _lern"):

        class Typo(StepRole):
            def lern(self, optimizer, step, compute, backward):
                """A slip of the pen."""


def test_helpers_of_a_role_are_left_alone():
    class Helped(StepRole):
        kinds = ()

        def learn(self, optimizer, step, compute, backward):
            """Written, so that what is named like it is no slip."""

        def learns(self):
            """Near a verb that is there."""

        def _value(self):
            """Near a verb, with an underscore."""

        def gradients(self):
            """Near none."""

    assert Helped.learns


def test_a_backend_of_the_older_contract_is_told_what_to_rename():
    text = r"Old are methods of its roles now.*devices -> devices\.resolve, to_numpy -> arrays\.to_numpy, bind_step -> "
    with pytest.raises(ConfigError, match=text):

        class Old(Backend):
            name = "old"

            def devices(self, gpu_ids, device):
                """The CPU."""

            def to_numpy(self, tree):
                return tree

            def bind_step(self, closure, network, arguments, compiling):
                return closure

            def helper(self):
                """Of no role."""


def test_verbs_that_a_backend_of_the_older_contract_inherits_are_told_all():
    class More:
        def seed(self, seed):
            """Yesterday's generators."""

    class Verbs(More):
        def devices(self, gpu_ids, device):
            """Yesterday's devices."""

    text = r"of the backend My are .*rename bind_step -> step\.bind, devices -> devices\.resolve, seed -> gen"
    with pytest.raises(ConfigError, match=text):

        class My(Verbs, Backend):
            def bind_step(self, closure, network, arguments, compiling):
                return closure


def test_a_backend_may_have_other_bases():
    class Noted:
        note = "a fact of its own"

    class Mixed(Noted, ToyBackend):
        name = "mixed"

    assert Mixed().note == "a fact of its own"


@pytest.mark.parametrize("verb", [*RENAMED, "state_tree", "seed", "forward", "learned_names"])
def test_old_verbs_have_a_place_that_is_there(verb):
    role, _, name = place_of(verb).partition(".")
    assert callable(getattr(getattr(BACKEND, role), name))


def test_other_names_have_none():
    assert place_of("generator") is None
    with pytest.raises(AttributeError, match="'ToyBackend' object has no attribute 'nonsense'"):
        BACKEND.nonsense  # noqa: B018


def test_the_core_calls_verbs_by_their_roles():
    verbs = [*RENAMED, *(verb for role in PLAIN for verb in vars(role) if place_of(verb))]
    old = re.compile(rf"\bbackend\.({'|'.join(set(verbs) - {role.role for role in PLAIN})}|devices|export)\(")
    found = {
        path.name: old.findall(path.read_text(encoding="utf-8"))
        for path in (Path(delira.__file__).parent).rglob("*.py")
    }
    assert {name: calls for name, calls in found.items() if calls} == {}


def test_callbacks_of_others_may_call_verbs_by_their_old_names():
    assert BACKEND.state_tree == BACKEND.checkpoints.state_tree
    assert BACKEND.bind_step == BACKEND.step.bind
