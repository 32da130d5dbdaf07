"""What a checkpoint holds: of one process, or gathered from the parts of several."""

import pytest

from delira.training.checkpoints import joined
from delira.training.run import Ranks


def halves(tree):
    """Two processes' parts of a checkpoint: each has some of the weights, the second no counters."""
    names = sorted(tree["model"])
    cut = (len(names) + 1) // 2
    first = {**tree, "model": {name: tree["model"][name] for name in names[:cut]}}
    second = {"model": {name: tree["model"][name] for name in names[cut:]}, "format": tree["format"]}
    return [first, second]


def test_a_checkpoint_that_is_gathered_from_parts_is_that_of_one_process(room, tmp_path, manager):
    whole = room.trainer(tmp_path / "whole")
    parts = room.trainer(tmp_path / "parts", ranks=Ranks(0, 2, halves))
    for trainer in (whole, parts):
        trainer.train(2, manager(), manager())
    assert room.same(parts.checkpoint_tree(), whole.checkpoint_tree())
    resumed = room.trainer(tmp_path / "parts")
    assert resumed.state.epoch == 2
    assert room.same(resumed.checkpoint_tree()["model"], whole.checkpoint_tree()["model"])


def test_parts_are_joined_entry_by_entry():
    assert joined([{"model": {"a": 1}, "epoch": 3}, {"model": {"b": 2}}, {"losses": {"x": {}}}]) == {
        "model": {"a": 1, "b": 2}, "epoch": 3, "losses": {"x": {}},
    }  # fmt: skip
    assert joined([{"a": 1}]) == {"a": 1}


@pytest.mark.parametrize("name", ["model", "epoch"])
def test_what_was_joined_leaves_the_parts_as_they_are(name):
    first, second = {"model": {"a": 1}, "epoch": 3}, {"model": {"b": 2}, "epoch": 3}
    joined([first, second])
    assert first == {"model": {"a": 1}, "epoch": 3}
