"""Limits of the figures that ``python tests/structure.py`` prints: what a reader has to follow."""

from pathlib import Path

import pytest
import structure
from structure import Source

#: figure -> the most that it may be
LIMITS = {
    "classes in the order of bases of a backend's trainer": 3,
    "of a trial's trainer": 0,
    "trainers made by type(...)": 0,
    "methods called on self that another file defines": 0,
    "parameters typed bare Any, percent": 10,
    "core files with tables or branches of frameworks": 4,
    "frames from run to the optimizer's step": 10,
    "circles of files": 0,
    "pairs of packages that know each other": 0,
    "bodies over 50 lines": 0,
    "files over 600 lines": 0,
}


@pytest.fixture(scope="module")
def figures():
    pytest.importorskip("torch", reason="the path to a step is that of the package 'torch', which is not installed")
    return structure.figures(Source(structure.HERE.parent))


@pytest.mark.parametrize("what", LIMITS)
def test_no_figure_of_the_structure_is_above_its_limit(figures, what):
    assert figures[what] <= LIMITS[what]


def test_what_hurts_a_reader_is_counted(tmp_path):
    package = tmp_path / "delira" / "training"
    package.mkdir(parents=True)
    for folder in (tmp_path / "delira", package):
        (folder / "__init__.py").write_text("")
    (package / "below.py").write_text(
        "from delira.training import above\n\n\n"
        "class BelowNetworkTrainer:\n    def _help(self) -> None:\n        self._set = 1\n"
    )
    (package / "above.py").write_text(
        "import typing\n\nfrom delira.training.below import BelowNetworkTrainer\n\n\n"
        "class TopNetworkTrainer(BelowNetworkTrainer):\n"
        "    def go(self, other: typing.Any, torch: 'Any') -> None:\n        self._help()\n        other._set\n\n\n"
        "Made = type('Trainer', (TopNetworkTrainer,), {})\n"
    )
    source = Source(Path(tmp_path))
    assert structure.depth_of_trainers(source) == 2
    assert structure.classes_made_at_run_time(source) == 1
    assert structure.methods_of_other_files(source) == 1
    assert structure.private_uses(source) == 1
    assert structure.circles(source) == [2]
