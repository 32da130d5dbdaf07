"""The counters of a run, as checkpoints hold them."""

import pytest
from stored_trees import through_a_file

from delira.errors import CheckpointError
from delira.io.container import read_tree, write_tree
from delira.training.run import TrainingState


def full_state():
    return TrainingState(
        epoch=3, step_in_epoch=2, global_step=11, fold=1, seed=5, best_score=-0.0, best_epoch=2, score_key="val_a",
        score_mode="highest", stop_training=True, rollbacks=2, micro_batches=4,
        history=[{"epoch": 1, "a": float("nan")}, {"epoch": 2, "a": float("-inf")}, {"epoch": 3, "a": 1e-300}],
        callbacks={"EarlyStopping": {"best": float("inf"), "epochs_waited": 2}}, accumulators={"losses": {}},
        generators={"python": {"gauss": None}}, loader={"position": 3},
    )  # fmt: skip


def test_the_state_of_a_run_goes_through_every_file(kit, tmp_path):
    tree = through_a_file(kit, full_state().to_tree(), tmp_path / "state")
    assert repr(TrainingState.from_tree(tree)) == repr(full_state())


@pytest.mark.parametrize("missing", [name for name in vars(TrainingState()) if name != "epoch"])
def test_a_state_of_an_older_file_lacks_what_came_later(missing):
    tree = full_state().to_tree()
    del tree[missing]
    state = TrainingState.from_tree(tree)
    assert getattr(state, missing) == getattr(TrainingState(), missing)
    assert {name: value for name, value in vars(state).items() if name != missing} == tree


def test_entries_of_a_newer_file_are_refused():
    with pytest.raises(CheckpointError, match=r"unknown entries \['momentum', 'phase'\]; .* a newer version of delira"):
        TrainingState.from_tree({**full_state().to_tree(), "phase": 1, "momentum": 2})


def test_default_states_share_nothing():
    first, second = TrainingState(), TrainingState()
    first.history.append({})
    first.callbacks["a"] = {}
    assert second == TrainingState()


def test_a_file_of_the_core_alone_holds_it_too(tmp_path):
    """Backends without a format of their own write this one."""
    with open(tmp_path / "state.zip", "wb") as file:
        write_tree(file, full_state().to_tree())
    assert repr(TrainingState.from_tree(read_tree(tmp_path / "state.zip"))) == repr(full_state())
