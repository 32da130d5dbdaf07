"""What users bring in the words of their framework: taken as it is, unless the backend says otherwise."""

import pytest

from delira.callbacks import CallbackList
from delira.contract import NativesRole
from delira.errors import ConfigError
from delira.testing.toy.backend import BACKEND


def test_in_the_plain_case_everything_is_taken_as_it_is():
    role = NativesRole(BACKEND)
    given = object()
    assert role.optimizer(given, None) is given
    for verb in (role.criterion, role.metric, role.callback):
        assert verb(given) is given
    assert type(BACKEND.natives) is NativesRole


def test_an_object_of_a_framework_that_is_no_callback_there_is_none_here():
    torch = pytest.importorskip("torch", reason="a module of the package 'torch', which is not installed")
    with pytest.raises(ConfigError, match=r"Linear\(in_features=1, .* is no callback"):
        CallbackList([torch.nn.Linear(1, 1)])
