"""Names of classes and functions on disk stay, wherever in the source these lie."""

import importlib
import operator
from pathlib import Path

import pytest

from delira.frameworks import NAMES as SHOWN
from delira.frameworks import installed_backends
from delira.utils.references import class_on_disk, module_on_disk, module_today, name_of, walk

#: public name, and what version 1.0 wrote of it
NAMES = [line.split() for line in (Path(__file__).parents[1] / "names_on_disk.txt").read_text().splitlines()]


@pytest.mark.parametrize("package", sorted({public.rpartition(".")[0] for public, _ in NAMES}))
def test_what_is_public_is_written_as_before_and_found_again(package):
    absent = {
        name for backend in SHOWN.keys() - installed_backends() for names in SHOWN[backend].values() for name in names
    }
    for public, written in NAMES:
        home, _, name = public.rpartition(".")
        if home != package or written == "None" or name in absent:
            continue
        found = getattr(importlib.import_module(home), name)
        assert name_of(found) == written, public
        module, name = written.split(":")
        assert walk(module, name) is found, public
        assert operator.attrgetter(name)(importlib.import_module(module_today(module, name))) is found, public


def test_users_own_classes_keep_their_module():
    class Own:
        pass

    assert module_on_disk("mine.models") == "mine.models"
    assert class_on_disk(Own) == f"{__name__}:{Own.__qualname__}"
