"""Every block of docs/trial.md runs, one after the other, and its tables are complete."""

import re
from pathlib import Path

import pytest

from delira import state
from delira.callbacks.abstract_callback import HOOKS

PAGE = (Path(__file__).parents[1] / "docs" / "trial.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_blocks_run():
    pytest.importorskip("torch", reason="the page's examples need the package 'torch', which is not installed")
    pytest.importorskip("skops", reason="the checkpoints of the sklearn backend need the package 'skops'")
    names = {"__name__": "trial_page"}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(compile(block, "docs/trial.md", "exec"), names)
    penalty = str(names["PENALTY"])  # another test of this process may have taken the text
    assert set(names["history"][0]) >= {"loss", penalty, "train_steps", "validation_steps"}


def test_every_key_and_hook_is_named():
    table = PAGE[PAGE.index("| key | since") :]
    sets = ("TRAIN", "VALIDATION", "TEST")
    explained = {f"{name}_{part}" for name in sets for part in ("GENERATOR", "STEPS", "DATA")}
    names = {name for name, value in vars(state).items() if isinstance(value, state.StateKey)}
    others = {"MIXUP_LAMBDA", "MIXUP_PERMUTATION", "TIMINGS"}  # of callbacks
    assert not [name for name in names - explained - others if f"`{name}`" not in table]
    validation = {f"{hook}_validation" for hook in ("on_sample", "on_forward", "on_criterion", "on_step")}
    missing = [hook for hook in HOOKS if hook not in validation and hook not in PAGE]
    assert not missing
