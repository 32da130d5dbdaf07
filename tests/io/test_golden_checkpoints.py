"""Checkpoints that were written long ago load for ever, with every bit, and their runs go on to the same end."""

import importlib.metadata
import importlib.util
import json
import math
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from delira.io import read_tree

GOLDEN = Path(__file__).parents[1] / "golden"


def _writer():
    spec = importlib.util.spec_from_file_location("write_golden", GOLDEN / "write_golden.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["write_golden"] = module
    spec.loader.exec_module(module)
    return module


golden = _writer()
NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))


#: what is compiled takes seconds to begin with
CONTINUED = [
    pytest.param(name, marks=[pytest.mark.slow] if name.startswith(("tensorflow", "jax")) and "_epoch_" in name else [])
    for name in NAMES
]


@pytest.fixture
def found(request, tmp_path):
    """``(trainer, what its checkpoint must give)``."""
    name = request.param
    case = name.rsplit("_", 2)[0]
    if absent := golden.missing(case):
        pytest.skip(f"the {golden.kit_of(case)} backend needs {', '.join(absent)}, not installed here")
    (file,) = (path for path in GOLDEN.glob(f"{name}[._]*") if path.suffix != ".json")
    if case == "sklearn" and (written := read_tree(file)["sklearn"]) != importlib.metadata.version("scikit-learn"):
        pytest.skip(f"it is of scikit-learn {written}, which promises nothing for the files of another version")
    (tmp_path / "checkpoints").mkdir()
    shutil.copy(file, tmp_path / "checkpoints" / f"checkpoint_last{file.name.removeprefix(name)}")
    return golden.build(case, tmp_path), json.loads((GOLDEN / f"{name}.json").read_text())


def test_there_is_one_of_every_kind():
    assert {f"{case}_{place}_1" for case in golden.CASES for place in golden.PLACES} <= set(NAMES)
    files = [path for path in GOLDEN.iterdir() if path.is_file() and path.suffix != ".py"]
    assert len(files) == 2 * len(NAMES)
    assert all(path.stat().st_size < 30_000 for path in files)


@pytest.mark.parametrize("found", NAMES, indirect=True)
def test_it_gives_every_bit_that_it_held(found):
    trainer, answer = found
    loaded = golden.loaded(trainer)
    assert {place: loaded.get(place) for place in answer["loaded"]} == answer["loaded"]


@pytest.mark.sampled("half")
@pytest.mark.slow_cases("jax_two")
@pytest.mark.parametrize("found", CONTINUED, indirect=True)
def test_its_run_goes_on_to_the_same_end(found):
    """With the same data, augmentation and dropout; the last bits belong to the processor and the framework."""
    trainer, answer = found
    n_kept = len(trainer.state.history)
    golden.train(trainer)
    assert trainer.state.history[:n_kept] == answer["history"][:n_kept]
    assert [record.keys() for record in trainer.state.history] == [record.keys() for record in answer["history"]]
    for record, expected in zip(trainer.state.history, answer["history"], strict=True):
        assert all(math.isclose(record[name], expected[name], rel_tol=1e-3) for name in expected)
    weights = golden.held(trainer)["model"]
    assert weights.keys() == answer["final"].keys()
    for name, expected in answer["final"].items():
        np.testing.assert_allclose(np.asarray(weights[name], float).ravel(), expected, rtol=1e-3, atol=1e-4)


def test_the_states_are_those_of_a_run_at_work():
    """A golden file that holds nothing would always pass."""

    def held(name):
        return json.loads((GOLDEN / f"{name}_1.json").read_text())["loaded"]

    def places(name, part):
        return [place for place in held(name) if part in place]

    for name in golden.CASES:
        values = "over_epoch" if name == "sklearn" else "losses"  # an estimator has metrics alone
        assert places(f"{name}_inside", f"state/accumulators/{values}")
        assert places(f"{name}_inside", "state/generators")
        assert places(f"{name}_inside", "state/callbacks/EarlyStopping/best")
        assert held(f"{name}_inside")["state/step_in_epoch"] == "2"
        assert held(f"{name}_epoch")["state/epoch"] == "2"
        if "EMA" in golden.CASES[name]:
            assert places(f"{name}_inside", "average/")
        if "accumulation" in golden.CASES[name]:
            assert places(f"{name}_inside", "/sums/"), "no gradients of an update that is not complete"
        if "two optimizers" in golden.CASES[name]:
            assert len({place.split("/")[1] for place in places(f"{name}_inside", "optimizer/")}) >= 2
    assert places("torch_fp16_inside", "scaler") or places("torch_fp16_inside", "scale")


def test_files_that_are_there_are_never_written_again(tmp_path, monkeypatch, capsys):
    (tmp_path / "toy_epoch_1.json").write_text("old")
    monkeypatch.setattr(golden, "HERE", tmp_path)
    golden.main(lambda case: case == "toy")
    assert (tmp_path / "toy_epoch_1.json").read_text() == "old"
    assert not (tmp_path / "toy_epoch_1.zip").exists()
    assert "toy_epoch_1.json: there already, and kept" in capsys.readouterr().out
    assert (tmp_path / "toy_inside_1.zip").exists()
