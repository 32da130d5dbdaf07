"""Losses and metrics of the steps of an epoch: kept on the device, reduced, and continued from a checkpoint."""

import numpy as np
import pytest
from stored_trees import through_a_file

from delira.errors import NonFiniteLossError
from delira.training.epoch import StepValues

N_BATCHES = 7


def read(values):
    return np.array([float(value) for value in values])


def append_step(values, step, rng):
    named = {"mse": rng.normal(), "mae": rng.normal()}
    if step % 2 == 0:  # a closure need not return every name at every step
        named["adversarial"] = rng.normal()
    values.append(named, int(rng.integers(1, 9)), step)


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("stop", range(N_BATCHES + 1))
@pytest.mark.parametrize("checked", [False, True])
def test_values_of_steps_go_on_where_they_were(kit, tmp_path, stop, checked):
    whole, first = StepValues(read), StepValues(read)
    for values, last in ((whole, N_BATCHES), (first, stop)):
        rng = np.random.default_rng(0)
        for step in range(1, last + 1):
            append_step(values, step, rng)
            if checked and step % 3 == 0:
                values.check_finite(1)
    second = StepValues(read)
    second.load_state_dict(through_a_file(kit, first.state_dict(), tmp_path / "values"))
    rng = np.random.default_rng(0)
    for step in range(1, N_BATCHES + 1):
        append_step(second if step > stop else StepValues(read), step, rng)
    assert second.keys() == whole.keys() or stop < 2
    assert sorted(second.keys()) == sorted(whole.keys())
    for mode in ("mean", "sum", "first_only", "last_only"):
        assert second.reduce(mode) == whole.reduce(mode)
    for name in whole:
        assert np.array_equal(second[name], whole[name])


def test_values_that_were_bad_before_the_checkpoint_name_their_step_after_it(kit, tmp_path):
    """With nonfinite='ignore' or 'skip' there may be such; each is looked at once."""
    first = StepValues(read)
    for step, value in enumerate([1.0, np.nan, 2.0], 1):
        first.append({"mse": value}, 4, step)
    second = StepValues(read)
    second.load_state_dict(through_a_file(kit, first.state_dict(), tmp_path / "values"))
    with pytest.raises(NonFiniteLossError, match="'mse' became nan in epoch 3, step 2"):
        second.check_finite(3)
    second.check_finite(3)
    third = StepValues(read)
    third.load_state_dict(second.state_dict())
    third.append({"mse": np.inf}, 4, 4)
    with pytest.raises(NonFiniteLossError, match="'mse' became inf in epoch 3, step 4"):
        third.check_finite(3)
    assert third.reduce("mean", finite_only=True) == {"mse": 1.5}


def test_a_state_is_a_copy(kit):
    values = StepValues(read)
    values.append({"mse": 1.0}, 4, 1)
    state = values.state_dict()
    values.append({"mse": 2.0}, 2, 2)
    assert values["mse"].tolist() == [1.0, 2.0]
    assert state["mse"]["values"].tolist() == [1.0]
    other = StepValues(read)
    other.load_state_dict(state)
    other.append({"mse": 5.0}, 2, 2)
    assert other["mse"].tolist() == [1.0, 5.0]
    assert state["mse"]["sizes"].tolist() == [4]


def test_values_on_a_device_are_read(tmp_path):
    torch = pytest.importorskip("torch")
    from small_backends import torch_kit

    values = StepValues(torch_kit().backend.arrays.read_scalars)
    for step in (1, 2, 3):
        values.append({"mse": torch.tensor(float(step), requires_grad=True)}, 1, step)
    state = through_a_file(torch_kit(), values.state_dict(), tmp_path / "values")
    assert np.asarray(state["mse"]["values"]).tolist() == [1.0, 2.0, 3.0]
