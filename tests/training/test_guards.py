"""Numbers that are not finite, and memory that does not suffice: what stops, what goes on, and what is told."""

import itertools
import json
import logging
import math
from typing import ClassVar

import numpy as np
import pytest
from broken_steps import At, Broken, break_off, spoil

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, NonFiniteLossError
from delira.training.callbacks import ExponentialMovingAverage
from delira.utils.files import unsealed

pytestmark = pytest.mark.forks


def notes(error):
    return "\n".join(error.__notes__)


def spoiled_data(regression, sample, entry="label", value=np.nan, n=10):
    arrays = regression(n)
    arrays[entry][sample] = value
    return BaseDataManager(arrays, 4)


# ---- raise: what is told


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("entry", ["data", "label"])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.parametrize("log_freq", [1, 50])
def test_the_error_names_the_samples_and_the_entries_of_the_first_bad_step(
    kit, tmp_path, regression, entry, value, log_freq
):
    data = spoiled_data(regression, 6, entry, value)
    trainer = kit.trainer(tmp_path, log_freq=log_freq)
    with np.errstate(all="ignore"), pytest.raises(NonFiniteLossError, match=r"epoch 1, step \d") as caught:
        trainer.train(2, data)
    batches = list(data.epoch(0, 0, 1, shuffle=True))
    step = next(number for number, batch in enumerate(batches, 1) if 6 in batch["number"])
    assert caught.value.step == step
    told = notes(caught.value)
    assert f"has the samples {', '.join(map(str, batches[step - 1]['number']))} of the training data" in told
    assert f"its entry {entry!r} holds values that are not finite in sample 6" in told
    assert "learning rates: lr 0.1" in told


def test_finite_data_are_said_to_be_finite_and_weights_that_exploded_are_named(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, optimizer_params={"lr": 1e200 if kit.name == "toy" else 1e25})
    with np.errstate(all="ignore"), pytest.raises(NonFiniteLossError) as caught:
        trainer.train(2, manager())
    told = notes(caught.value)
    assert "all of their values are finite" in told
    assert f"weights that are not finite by now: {kit.weight_name}" in told


def test_the_diagnosis_after_transforms_shows_what_the_network_saw(kit, tmp_path, manager):
    def divide(**batch):
        data = batch["data"].copy()
        data[batch["number"] == 3] /= 0
        return {**batch, "data": data}

    trainer = kit.trainer(tmp_path)
    with np.errstate(all="ignore"), pytest.raises(NonFiniteLossError) as caught:
        trainer.train(1, manager(transforms=divide))
    assert "its entry 'data' holds values that are not finite in sample 3" in notes(caught.value)


def test_the_diagnosis_works_with_workers_and_leaves_the_generators_alone(kit, tmp_path, regression):
    arrays = regression(10)
    arrays["label"][6] = np.nan
    data = BaseDataManager(arrays, 4, n_process_augmentation=1)
    trainer = kit.trainer(tmp_path)
    with kit.undisturbed(), np.errstate(all="ignore"), pytest.raises(NonFiniteLossError) as caught:
        trainer.train(1, data)
    assert "its entry 'label' holds" in notes(caught.value)


def test_data_that_cannot_be_loaded_again_do_not_hide_the_error(kit, tmp_path, manager):
    calls = []

    def once(**batch):
        calls.append(1)
        if len(calls) > 4:  # one for the check, three steps
            raise OSError("the file is gone")
        return {**batch, "label": batch["label"] * np.nan}

    with np.errstate(all="ignore"), pytest.raises(NonFiniteLossError) as caught:
        kit.trainer(tmp_path).train(1, manager(transforms=once))
    assert "could not be loaded again: " in notes(caught.value)
    assert "learning rates: lr 0.1" in notes(caught.value)


def test_a_list_of_batches_has_no_samples_to_be_named(kit, tmp_path, regression):
    batch = regression(4)
    batch["label"][0] = np.nan
    with np.errstate(all="ignore"), pytest.raises(NonFiniteLossError, match="epoch 1, step 2") as caught:
        kit.trainer(tmp_path).train(1, [regression(4), batch])
    assert "samples" not in notes(caught.value)
    assert "learning rates: lr 0.1" in notes(caught.value)


# ---- raise: what is written


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("settings", [{"save_freq": 1}, {"save_freq_steps": 2}, {"save_freq": 1, "save_freq_steps": 1}])
@pytest.mark.parametrize("average", [False, True])
def test_weights_that_are_not_finite_never_reach_a_checkpoint(
    kit, tmp_path, manager, background, value, settings, average
):
    callbacks = [At(6, spoil(kit, value)), *([ExponentialMovingAverage(0.5)] if average else [])]
    trainer = kit.trainer(tmp_path, callbacks=callbacks, save_in_background=background, **settings)
    with np.errstate(all="ignore"), pytest.raises(NonFiniteLossError) as caught:
        trainer.train(3, manager())
    assert "became" in str(caught.value) or "the weights are not finite any more after epoch" in str(caught.value)
    paths = list(trainer.checkpoints.folder.glob(f"*{kit.backend.checkpoint_suffix}"))
    assert paths
    for path in paths:
        tree = trainer.load_state(path)
        for part in ("model", "training_model", "optimizer"):
            for array in kit.backend.arrays.to_numpy(tree.get(part, {})).values():
                assert not isinstance(array, np.ndarray) or np.isfinite(array).all(), path.name
    resumed = kit.trainer(tmp_path, callbacks=callbacks[1:], **settings)
    assert resumed.state.global_step in (3, 4, 5)
    resumed.train(3, manager())


def test_ignore_writes_whatever_there_is(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, nonfinite="ignore", callbacks=[At(2, spoil(kit))])
    trainer.train(1, manager())
    assert np.isnan(kit.read(trainer.module)).all()
    assert kit.trainer(tmp_path, nonfinite="ignore").state.epoch == 1


# ---- roll back


class Rates:
    """The learning rate at every step, by its number from 1; those of steps that were taken back too."""

    def __init__(self):
        self.seen = []

    def at_iter_begin(self, trainer, *, global_iter_num, **facts):
        self.seen.append((global_iter_num + 1, trainer.backend.optimizers.learning_rates(trainer.optimizers)["lr"]))


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize(
    ("settings", "back_to"),
    [({"save_freq": 1}, 3), ({"save_freq_steps": 2}, 4), ({"save_freq": None}, 0), ({"save_freq_steps": 1}, 4)],
)
def test_a_rollback_goes_on_from_the_last_checkpoint_with_a_smaller_rate(
    kit, tmp_path, manager, settings, back_to, background, average, caplog
):
    """The weights are spoiled in step 5, which shows in the loss of step 6 at the latest."""
    rates = Rates()
    callbacks = [rates, At(5, spoil(kit)), *([ExponentialMovingAverage(0.5)] if average else [])]
    trainer = kit.trainer(
        tmp_path, callbacks=callbacks, nonfinite="rollback", log_freq=1, save_in_background=background, **settings
    )
    with np.errstate(all="ignore"):
        trainer.train(3, manager())
    steps = [step for step, _ in rates.seen]
    turn = next(position for position, (a, b) in enumerate(itertools.pairwise(steps), 1) if b <= a)
    assert steps[turn:] == list(range(back_to + 1, 10))
    assert [rate for _, rate in rates.seen] == [0.1] * turn + [0.05] * (len(steps) - turn)
    assert trainer.state.rollbacks == 1
    assert np.isfinite(kit.read(trainer.module)).all()
    assert [record["epoch"] for record in trainer.state.history] == [1, 2, 3]
    assert "(rollback 1 of 3)" in caplog.text


@pytest.mark.sampled("values")
@pytest.mark.parametrize("settings", [{"save_freq": 1}, {"save_freq_steps": 2}])
def test_a_rollback_with_workers_gives_the_same_bits(kit, tmp_path, manager, settings):
    def noise(**batch):
        return {**batch, "data": batch["data"] + np.random.normal(scale=0.1, size=batch["data"].shape)}

    results = []
    for workers in (0, 2):
        trainer = kit.trainer(
            tmp_path / str(workers), kit.build(dropout=0.5), callbacks=[At(5, spoil(kit))], nonfinite="rollback",
            log_freq=1, **settings,
        )  # fmt: skip
        with np.errstate(all="ignore"):
            trainer.train(3, manager(transforms=noise, n_process_augmentation=workers))
        assert trainer.state.rollbacks == 1
        results.append(trainer.checkpoint_tree())
    assert kit.same(*results)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("save_freq", [1, 2, None])
def test_the_history_files_are_taken_back_too(kit, tmp_path, manager, save_freq):
    """From epoch 4 back to the checkpoint after epoch 3, 2 or 0."""
    trainer = kit.trainer(tmp_path, callbacks=[At(11, spoil(kit))], nonfinite="rollback", save_freq=save_freq)
    with np.errstate(all="ignore"):
        trainer.train(5, manager())
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [unsealed(json.loads(line)) for line in lines] == trainer.state.history
    assert len((tmp_path / "history.csv").read_text().splitlines()) == 6


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("step", [6, 9])
def test_weights_that_show_only_in_a_checkpoint_are_rolled_back_too(kit, tmp_path, manager, step, background):
    """Spoiled in the last step of an epoch, or of all: no loss sees it."""
    trainer = kit.trainer(
        tmp_path, callbacks=[At(step, spoil(kit))], nonfinite="rollback", save_freq=1, save_in_background=background
    )
    with np.errstate(all="ignore"):
        trainer.train(3, manager())
    assert trainer.state.rollbacks == 1
    assert [record["epoch"] for record in trainer.state.history] == [1, 2, 3]
    assert np.isfinite(kit.read(trainer.module)).all()
    tree = trainer.load_state(trainer.checkpoints.path("last"))
    assert (tree["epoch"], tree["state"]["rollbacks"]) == (3, 1)


def test_the_factor_and_the_schedule_work_together(kit, tmp_path, manager):
    """The rate halves after every epoch; the rollback makes it a quarter in the second."""
    more, rates = kit.halving(), Rates()
    callbacks = [rates, At(5, spoil(kit)), *more.pop("callbacks", ())]
    trainer = kit.trainer(
        tmp_path, callbacks=callbacks, nonfinite="rollback", rollback_factor=0.25, log_freq=1, save_freq=1, **more
    )
    with np.errstate(all="ignore"):
        trainer.train(3, manager())
    by_step = dict(rates.seen)  # the later of two
    assert [by_step[step] for step in range(1, 10)] == pytest.approx([0.1] * 3 + [0.0125] * 3 + [0.00625] * 3)


@pytest.mark.parametrize("most", [1, 2, 4])
def test_a_loss_that_is_always_bad_ends_the_run_after_the_allowed_rollbacks(kit, tmp_path, manager, most):
    rates = Rates()
    trainer = kit.trainer(
        tmp_path, callbacks=[rates], nonfinite="rollback", max_rollbacks=most, log_freq=1, save_freq=1,
        losses={"mse": lambda prediction, target: kit.loss(prediction, target) * float("nan")},
    )  # fmt: skip
    with np.errstate(all="ignore"), pytest.raises(NonFiniteLossError) as caught:
        trainer.train(2, manager())
    assert f"the run went back to its last checkpoint {most} times already (max_rollbacks)" in notes(caught.value)
    starts = [rate for step, rate in rates.seen if step == 1]
    assert starts == pytest.approx([0.1 * 0.5**n for n in range(most + 1)])


def test_there_is_no_rollback_to_meet_the_same_bad_data_again(kit, tmp_path, regression):
    rates = Rates()
    trainer = kit.trainer(tmp_path, callbacks=[rates], nonfinite="rollback", log_freq=1, save_freq=1)
    with np.errstate(all="ignore"), pytest.raises(NonFiniteLossError) as caught:
        trainer.train(2, spoiled_data(regression, 6))
    assert "its entry 'label' holds values that are not finite" in notes(caught.value)
    assert "there was no rollback: the batch would be the same" in notes(caught.value)
    assert {rate for _, rate in rates.seen} == {0.1}


def test_a_rollback_before_any_epoch_has_the_beginning_to_go_back_to(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, callbacks=[At(1, spoil(kit))], nonfinite="rollback", save_freq=None)
    with np.errstate(all="ignore"):
        trainer.train(2, manager())
    reference = kit.trainer(tmp_path / "reference", optimizer_params={"lr": 0.05, "momentum": 0.5})
    reference.train(2, manager())
    assert np.array_equal(kit.read(trainer.module), kit.read(reference.module))


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("step", [6, 8, 11])
@pytest.mark.parametrize("settings", [{"save_freq": 1}, {"save_freq_steps": 2}])
def test_a_run_that_was_broken_off_after_a_rollback_ends_in_the_same_bits(kit, tmp_path, manager, step, settings):
    """Whether the rollback is in a checkpoint by then or must happen again: a transform spoils epoch 2 each time."""

    class Explode:
        """Makes the weights bad in step 5 as long as the rate is the first one: what a rollback is made for."""

        def at_iter_end(self, trainer, *, global_iter_num, **facts):
            if global_iter_num + 1 == 5 and trainer.backend.optimizers.learning_rates(trainer.optimizers)["lr"] == 0.1:
                spoil(kit)(trainer)

    class AfterRollback:
        """Ends the process at a step after the rollback."""

        def at_iter_end(self, trainer, *, global_iter_num, **facts):
            if global_iter_num + 1 == step and trainer.state.rollbacks:
                raise Broken

    def build(path, *callbacks):
        return kit.trainer(
            path, kit.build(dropout=0.5), callbacks=[ExponentialMovingAverage(0.5), Explode(), *callbacks],
            nonfinite="rollback", log_freq=1, val_score_key="mse", **settings,
        )  # fmt: skip

    unbroken, path = build(tmp_path / "unbroken"), tmp_path / "broken"
    with np.errstate(all="ignore"):
        unbroken.train(4, manager(), manager(7))
        assert unbroken.state.rollbacks == 1
        with pytest.raises(Broken):
            build(path, AfterRollback()).train(4, manager(), manager(7))
        resumed = build(path)
        resumed.train(4, manager(), manager(7))
    assert kit.same(resumed.checkpoint_tree(), unbroken.checkpoint_tree())


def test_the_average_sees_every_update_after_a_rollback_of_one_step(kit, tmp_path, manager):
    """Step 5 is noticed to be bad at once and comes again: the average must follow it then."""
    weights, spoiled = {}, []

    class Watch:
        def at_iter_end(self, trainer, *, global_iter_num, **facts):
            weights[global_iter_num + 1] = kit.read(trainer.module)  # the later of two

    class BadOnce:
        """A loss that is bad in one training step, though neither data nor weights are."""

        calls = 0

        def __call__(self, prediction, target):
            self.calls += 1
            spoiled.append(self.calls)
            return kit.loss(prediction, target) + (math.nan if self.calls == 6 else 0)  # the first call is a check

    average = ExponentialMovingAverage(0.5, warmup=False)
    trainer = kit.trainer(
        tmp_path, callbacks=[Watch(), average], losses={"mse": BadOnce()}, nonfinite="rollback", log_freq=1,
        save_freq_steps=1, compiled=False,
    )  # fmt: skip
    with np.errstate(all="ignore"):
        trainer.train(2, manager())
    assert trainer.state.rollbacks == 1
    assert len(spoiled) == 8
    assert average.n_updates == 6
    expected = np.linspace(-0.5, 0.5, 3).reshape(-1, 1)
    for step in range(1, 7):
        expected = 0.5 * expected + 0.5 * weights[step]
    (found,) = kit.backend.arrays.to_numpy(average.weights()).values()
    np.testing.assert_allclose(found.reshape(-1, 1), expected, rtol=1e-5)


def test_a_backend_or_a_setting_that_cannot_is_refused(kit, tmp_path):
    for name, value in (
        ("nonfinite", "rolback"), ("rollback_factor", 1), ("rollback_factor", 0), ("rollback_factor", "half"),
        ("max_rollbacks", 0), ("micro_batches", 0), ("micro_batches", "many"), ("micro_batches", 1.5),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=name):
            kit.trainer(tmp_path, **{name: value})


# ---- skip


def test_skip_leaves_bad_gradients_of_a_finite_loss_out_and_counts_them(tmp_path, regression):
    torch = pytest.importorskip("torch")
    from small_backends import torch_kit

    def steep(prediction, target):
        """Its gradient is infinite times zero where prediction equals target."""
        return torch.sqrt((prediction - target) ** 2).mean()

    kit = torch_kit()
    batches = [regression(4, seed=seed) for seed in range(4)]
    zeros = {**batches[1], "data": np.zeros((4, 3)), "label": np.zeros((4, 1))}
    settings = {"losses": {"steep": steep}, "save_freq": 1}
    trainer = kit.trainer(tmp_path / "skip", nonfinite="skip", **settings)
    trainer.train(2, [batches[0], zeros, *batches[2:]])
    reference = kit.trainer(tmp_path / "reference", **settings)
    reference.train(2, [batches[0], *batches[2:]])
    assert torch.equal(trainer.module.linear.weight, reference.module.linear.weight)
    assert trainer.optimizers["default"].num_skipped == 2
    with pytest.raises(NonFiniteLossError):
        kit.trainer(tmp_path / "raise", **settings).train(2, [batches[0], zeros, *batches[2:]])


# ---- memory: a network that has only so much


torch_only = pytest.mark.usefixtures("needs_torch")


@pytest.fixture
def needs_torch():
    pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")


def hungry_kit(most=None, kind="OutOfMemoryError"):
    """The torch backend, whose networks run out of memory when they learn from more than ``most`` samples."""
    import dataclasses

    import torch
    from small_backends import torch_kit

    kit = torch_kit()

    class Hungry(kit.network):
        largest = most
        sizes: ClassVar = []

        def __init__(self, n_features=3, dropout=0.0):
            super().__init__(n_features, dropout)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            if torch.is_grad_enabled():
                self.sizes.append(len(x))
                if self.largest is not None and len(x) > self.largest:
                    torch.rand(3)  # the attempt has drawn random numbers
                    if kind == "OutOfMemoryError":
                        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
                    raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
            return super().forward(x)

    return dataclasses.replace(kit, network=Hungry)


@torch_only
def test_the_error_of_missing_memory_tells_the_batch_size_and_what_to_try(tmp_path, manager):
    import torch

    with pytest.raises(torch.OutOfMemoryError) as caught:
        hungry_kit(4).trainer(tmp_path).train(1, manager(32, 16))
    told = notes(caught.value)
    assert "out of memory with batch_size=16. Try batch_size=8 or micro_batches='auto'" in told


@torch_only
def test_a_batch_that_is_too_large_even_without_gradients_is_no_reason_not_to_begin(tmp_path, manager):
    """Before the first step the network is tried with a whole batch."""
    import torch

    kit = hungry_kit(4)

    class Always(kit.network):
        def forward(self, x):
            if len(x) > 4:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return super().forward(x)

    trainer = kit.trainer(tmp_path, kit.build(cls=Always), micro_batches="auto", val_score_key="mse")
    trainer.train(1, manager(16, 8), manager(8, 4))
    assert trainer.state.micro_batches == 2
    with pytest.raises(torch.OutOfMemoryError):
        kit.trainer(tmp_path / "b", kit.build(cls=Always), micro_batches="auto").train(1, manager(16, 8), manager(8, 8))


@torch_only
def test_what_was_tried_already_is_not_suggested(tmp_path, manager):
    import torch

    with pytest.raises(torch.OutOfMemoryError) as caught:
        hungry_kit(0).trainer(tmp_path, micro_batches="auto").train(1, manager(32, 16))
    assert "micro_batches='auto'" not in notes(caught.value)
    assert caught.value.__notes__


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


class Steps:
    """What every step gave."""

    def __init__(self):
        self.losses, self.predictions, self.numbers = [], [], []

    def at_iter_end(self, trainer, *, losses, predictions, data_dict, **facts):
        self.losses.append(float(losses["mse"]))
        self.predictions.append(trainer.backend.arrays.to_numpy(predictions["pred"]).copy())
        self.numbers.append(np.asarray(data_dict["number"]).tolist())


def train_hungry(kit, path, manager, *, epochs=3, n=26, batch_size=8, **settings):
    steps = Steps()
    callbacks = [steps, *settings.pop("callbacks", ())]
    trainer = kit.trainer(path, callbacks=callbacks, metrics={"rmse": rmse}, val_score_key="rmse", **settings)
    trainer.train(epochs, manager(n, batch_size), manager(7))
    return trainer, steps


@pytest.mark.sampled("values")
@torch_only
@pytest.mark.parametrize("update", [{}, {"gradient_accumulation_steps": 3}, {"gradient_clip_norm": 0.1}])
@pytest.mark.parametrize("parts", [2, 3, 100])
def test_a_batch_in_parts_gives_what_the_whole_gives(tmp_path, manager, update, parts):
    """Batches of 8, 8, 8 and 2 samples: also parts of different sizes, and more parts than samples."""
    whole, steps = train_hungry(hungry_kit(), tmp_path / "whole", manager, **update)
    kit = hungry_kit()
    in_parts, other = train_hungry(kit, tmp_path / "parts", manager, micro_batches=parts, **update)
    assert max(kit.network.sizes) == math.ceil(8 / parts)
    np.testing.assert_allclose(kit.read(in_parts.module), kit.read(whole.module), rtol=1e-5)
    assert steps.numbers == other.numbers
    np.testing.assert_allclose(other.losses, steps.losses, rtol=1e-4)
    for ours, theirs in zip(other.predictions, steps.predictions, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    for ours, theirs in zip(in_parts.state.history, whole.state.history, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)
    assert in_parts.state.global_step == whole.state.global_step == 12
    num_updates = {trainer.optimizers["default"].num_updates for trainer in (whole, in_parts)}
    assert len(num_updates) == 1


@torch_only
@pytest.mark.parametrize(
    ("most", "parts", "kind", "update"),
    [
        (8, 1, "OutOfMemoryError", {}),
        (7, 2, "RuntimeError", {}),
        pytest.param(3, 4, "OutOfMemoryError", {"gradient_accumulation_steps": 3}, marks=pytest.mark.slow),
        pytest.param(1, 8, "OutOfMemoryError", {}, marks=pytest.mark.slow),
    ],
)
def test_auto_halves_until_it_fits_and_changes_nothing_but_rounding(
    tmp_path, manager, most, parts, update, kind, caplog
):
    whole, steps = train_hungry(hungry_kit(), tmp_path / "whole", manager, **update)
    kit = hungry_kit(most, kind)
    auto, other = train_hungry(kit, tmp_path / "auto", manager, micro_batches="auto", **update)
    assert auto.state.micro_batches == parts
    np.testing.assert_allclose(kit.read(auto.module), kit.read(whole.module), rtol=1e-5)
    np.testing.assert_allclose(other.losses, steps.losses, rtol=1e-4)
    assert [len(each) for each in other.predictions] == [len(each) for each in steps.predictions]
    said = [record for record in caplog.records if "ran out of memory with 8 samples" in record.getMessage()]
    assert len(said) == int(math.log2(parts))


@torch_only
def test_after_memory_ran_out_random_numbers_are_those_of_the_parts_from_the_start(tmp_path, manager):
    """Dropout: the attempt that failed leaves no trace."""
    auto = hungry_kit(4)
    first = auto.trainer(tmp_path / "auto", auto.build(dropout=0.5), micro_batches="auto")
    first.train(2, manager(16, 8))
    fixed = hungry_kit()
    second = fixed.trainer(tmp_path / "fixed", fixed.build(dropout=0.5), micro_batches=2)
    second.train(2, manager(16, 8))
    assert np.array_equal(auto.read(first.module), fixed.read(second.module))


@torch_only
@pytest.mark.parametrize(
    ("step", "update"),
    [
        pytest.param(1, {}, marks=pytest.mark.slow, id="begin"),
        pytest.param(7, {}, marks=pytest.mark.slow, id="later"),
        pytest.param(3, {"gradient_accumulation_steps": 3}, id="group"),
    ],
)
def test_a_resumed_run_keeps_the_number_of_parts_and_ends_in_the_same_bits(tmp_path, manager, step, update):
    settings = {"micro_batches": "auto", "save_freq_steps": 1, **update}
    unbroken, _ = train_hungry(hungry_kit(3), tmp_path / "unbroken", manager, epochs=2, **settings)
    with pytest.raises(Broken):
        train_hungry(hungry_kit(3), tmp_path / "broken", manager, epochs=2, callbacks=[At(step, break_off)], **settings)
    kit = hungry_kit(3)
    resumed, _ = train_hungry(kit, tmp_path / "broken", manager, epochs=2, **settings)
    assert resumed.state.micro_batches == 4
    assert step == 1 or not [size for size in kit.network.sizes if size > 3], "memory ran out once more"
    assert kit.same(resumed.checkpoint_tree(), unbroken.checkpoint_tree())


def pair_kit(most=None, in_second=False):
    """Two networks with an optimizer each; the second learns from the output of the first."""
    import torch

    from delira.models import AbstractPyTorchNetwork

    class Pair(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.gen, self.discr = torch.nn.Linear(3, 1), torch.nn.Linear(1, 1)

        def forward(self, x):
            return {"pred": self.gen(x)}

        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            if most is not None and not in_second and len(data_dict["data"]) > most:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            pred = model.gen(data_dict["data"])
            loss = losses["mse"](pred, data_dict["label"])
            optimizers["gen"].zero_grad()
            with optimizers["gen"].scale_loss(loss) as scaled:
                scaled.backward()
            optimizers["gen"].step()
            if most is not None and in_second and len(data_dict["data"]) > most:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            score = losses["mse"](model.discr(pred.detach()), data_dict["label"])
            optimizers["discr"].zero_grad()
            with optimizers["discr"].scale_loss(score) as scaled:
                scaled.backward()
            optimizers["discr"].step()
            return {"gen": loss.detach(), "discr": score.detach()}, {"pred": pred.detach()}

    return Pair


def train_pair(cls, path, manager, **settings):
    import torch
    from small_backends import torch_kit

    from delira.training.train_utils import create_optims_gan_default_pytorch

    trainer = torch_kit().trainer(
        path, cls(), losses={"mse": torch.nn.functional.mse_loss}, optim_fn=create_optims_gan_default_pytorch,
        metrics={"rmse": rmse}, **settings,
    )  # fmt: skip
    trainer.train(2, manager(16, 8))
    return trainer


@pytest.mark.sampled("values")
@torch_only
@pytest.mark.parametrize("update", [{}, {"gradient_accumulation_steps": 2}])
@pytest.mark.parametrize("settings", [{"micro_batches": 3}, {"micro_batches": "auto"}])
def test_two_optimizers_in_parts_give_what_the_whole_gives(tmp_path, manager, update, settings):
    whole = train_pair(pair_kit(), tmp_path / "whole", manager, **update)
    most = 4 if settings["micro_batches"] == "auto" else None
    parts = train_pair(pair_kit(most), tmp_path / "parts", manager, **update, **settings)
    for name, weight in whole.module.state_dict().items():
        np.testing.assert_allclose(parts.module.state_dict()[name], weight, rtol=1e-5, err_msg=name)
    for ours, theirs in zip(parts.state.history, whole.state.history, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)


@torch_only
@pytest.mark.parametrize("update", [{}, {"gradient_accumulation_steps": 2}])
def test_memory_that_runs_out_between_two_optimizers_never_updates_the_first_twice(tmp_path, manager, update):
    """The first has updated when the second runs out of memory; the batch cannot be computed again."""
    import torch

    with pytest.raises(torch.OutOfMemoryError) as caught:
        train_pair(pair_kit(4, in_second=True), tmp_path / "auto", manager, micro_batches="auto", **update)
    assert "since an optimizer has updated with it already; set micro_batches=2" in notes(caught.value)
    fixed = train_pair(pair_kit(4, in_second=True), tmp_path / "fixed", manager, micro_batches=2, **update)
    whole = train_pair(pair_kit(), tmp_path / "whole", manager, **update)
    for name, weight in whole.module.state_dict().items():
        np.testing.assert_allclose(fixed.module.state_dict()[name], weight, rtol=1e-5, err_msg=name)


@torch_only
def test_predictions_that_are_numpy_arrays_are_put_together_too(tmp_path, manager):
    """A closure written by hand may return them."""
    from small_backends import torch_kit

    kit = torch_kit()

    class ByHand(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            pred = model(data_dict["data"])["pred"]
            loss = losses["mse"](pred, data_dict["label"])
            optimizers["default"].zero_grad()
            with optimizers["default"].scale_loss(loss) as scaled:
                scaled.backward()
            optimizers["default"].step()
            return {"mse": loss.item()}, {"pred": pred.detach().numpy(), "nested": [pred.detach().numpy()]}

    def train(path, **settings):
        trainer = kit.trainer(path, kit.build(cls=ByHand), metrics={"rmse": rmse}, **settings)
        trainer.train(2, manager(16, 8))
        return trainer.state.history

    for ours, theirs in zip(train(tmp_path / "a", micro_batches=3), train(tmp_path / "b"), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)


@torch_only
def test_entries_that_are_lists_or_texts_are_cut_with_the_samples(tmp_path, manager):
    from small_backends import torch_kit

    kit, seen = torch_kit(), []

    class Looks(kit.network):
        @staticmethod
        def prepare_batch(batch, input_device, output_device):
            prepared = kit.network.prepare_batch(batch, input_device, output_device)
            return {**prepared, "names": [f"case {number}" for number in batch["number"]]}

        @staticmethod
        def closure(model, data_dict, optimizers, **kwargs):
            numbers = [f"case {number}" for number in data_dict["number"].tolist()]
            seen.append(numbers == data_dict["names"])
            return kit.network.closure(model, data_dict, optimizers, **kwargs)

    kit.trainer(tmp_path, kit.build(cls=Looks), micro_batches=3).train(1, manager(8, 8))
    assert seen == [True] * 3


def test_a_backend_without_parts_says_so(tmp_path, manager):
    from small_backends import toy_kit

    with pytest.raises(ConfigError, match="micro-batches"):
        toy_kit().trainer(tmp_path, micro_batches=2).train(1, manager())


@torch_only
def test_an_update_is_left_out_as_a_whole_if_a_part_is_bad(tmp_path, regression):
    batches = [regression(8, seed=seed) for seed in range(3)]
    batches[1]["label"][5] = np.nan
    kit = hungry_kit()
    settings = {"nonfinite": "skip", "save_freq": 1}
    parts = kit.trainer(tmp_path / "parts", kit.build(), micro_batches=4, **settings)
    parts.train(2, batches)
    whole = kit.trainer(tmp_path / "whole", kit.build(), **settings)
    whole.train(2, batches)
    np.testing.assert_allclose(kit.read(parts.module), kit.read(whole.module), rtol=1e-5)
    assert parts.optimizers["default"].num_skipped == whole.optimizers["default"].num_skipped == 2


@torch_only
def test_the_average_counts_a_batch_in_parts_once(tmp_path, manager):
    average = ExponentialMovingAverage(0.5)
    train_hungry(hungry_kit(2), tmp_path, manager, callbacks=[average], micro_batches="auto", epochs=2)
    assert average.n_updates == 8


@torch_only
def test_a_warning_is_logged_once_per_halving(tmp_path, manager, caplog):
    caplog.set_level(logging.WARNING, "delira")
    train_hungry(hungry_kit(2), tmp_path, manager, micro_batches="auto")
    texts = [record.getMessage() for record in caplog.records if "ran out of memory" in record.getMessage()]
    assert texts == [
        "the device ran out of memory with 8 samples; batches are computed in 2 parts from now on",
        "the device ran out of memory with 8 samples; batches are computed in 4 parts from now on",
    ]
