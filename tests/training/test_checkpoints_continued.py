"""Going on from checkpoints loses no step, no weights and no result, whatever happened between."""

import os
import pickle
import signal

import numpy as np
import pytest
from test_resume_inside_an_epoch import At, Interrupted, Loader, Moments, full, outcome, raise_it, train

from delira.data_loading import AbstractDataset, BaseDataManager, SequentialSampler
from delira.errors import CheckpointError, ConfigError, TrainingInterrupted
from delira.training.callbacks import AbstractCallback, EarlyStopping, ExponentialMovingAverage
from delira.training.run import TrainingState

pytestmark = pytest.mark.turns


class Broken(AbstractDataset):
    """Some of its samples cannot be loaded."""

    def __init__(self, arrays, bad):
        super().__init__()
        self.data, self.bad = arrays, bad

    def __len__(self):
        return len(self.data["label"])

    def __getitem__(self, index):
        if index in self.bad:
            raise ValueError(f"sample {index} is broken")
        return {name: array[index] for name, array in self.data.items()}


@pytest.mark.sampled("half")
@pytest.mark.sampled("pairs")
@pytest.mark.filterwarnings("ignore:.*is left out:UserWarning")
@pytest.mark.parametrize("step", range(2, 10))
@pytest.mark.parametrize(("batch_size", "bad"), [(1, {0, 3, 4}), (2, {2, 3, 6, 7})])
def test_batches_that_were_left_out_as_a_whole_do_not_move_the_position(
    kit, tmp_path, regression, step, batch_size, bad
):
    def data_of(size):  # in order, so that whole batches of two are left out
        return BaseDataManager(Broken(regression(10), bad), size, bad_samples="skip", sampler_cls=SequentialSampler)

    unbroken = full(kit, tmp_path / "unbroken")
    unbroken.train(3, data_of(batch_size), [regression(7)])
    steps = unbroken.state.global_step
    with pytest.raises(Interrupted):
        full(kit, tmp_path / "broken", At(step, raise_it)).train(3, data_of(batch_size), [regression(7)])
    resumed = full(kit, tmp_path / "broken")
    resumed.train(3, data_of(batch_size), [regression(7)])
    assert resumed.state.global_step == steps
    assert kit.same(outcome(unbroken), outcome(resumed))


def test_an_older_file_begins_a_new_branch_in_its_folder(kit, tmp_path, manager):
    first = full(kit, tmp_path, save_freq=1, save_freq_steps=None)
    first.train(5, manager(), manager(7))
    trainer = full(kit, tmp_path, save_freq=1, save_freq_steps=None)
    trainer.update_state(trainer.checkpoints.path("epoch_2"))
    trainer.scale_rates(0.1)
    trainer.train(3, manager(), manager(7))
    again = full(kit, tmp_path, save_freq=1, save_freq_steps=None)
    assert again.state.epoch == 3
    assert again.checkpoints.path("epoch_5").with_name(again.checkpoints.path("epoch_5").name + ".superseded").exists()


class Stop:
    """Ends the training after a step, by the flag of callbacks, and dies one step later."""

    def at_iter_end(self, trainer, *, global_iter_num, **facts):
        if global_iter_num == 3:
            trainer.stop_training = True


def test_an_epoch_that_is_to_be_the_last_one_is_finished_after_a_restart(kit, tmp_path, manager):
    unbroken = full(kit, tmp_path / "unbroken", Stop())
    train(unbroken, manager)
    with pytest.raises(Interrupted):
        train(full(kit, tmp_path / "broken", Stop(), At(5, raise_it)), manager)
    resumed = full(kit, tmp_path / "broken", Stop())
    train(resumed, manager)
    assert resumed.state.epoch == unbroken.state.epoch == 2
    assert kit.same(outcome(unbroken), outcome(resumed))


def test_a_run_cannot_end_before_the_epoch_that_it_is_inside_of(kit, tmp_path, manager):
    with pytest.raises(Interrupted):
        train(full(kit, tmp_path, At(8, raise_it)), manager)
    trainer = full(kit, tmp_path)
    with pytest.raises(ConfigError, match="num_epochs=2, but the run is inside epoch 3 already; ask for more epochs"):
        trainer.train(2, manager(), manager(7))


def test_callbacks_that_are_registered_later_continue_too(kit, tmp_path, manager):
    def build(path, *callbacks):
        trainer = full(kit, path, *callbacks)
        trainer.register_callback(EarlyStopping("val_rmse", patience=9))
        trainer.register_callback(ExponentialMovingAverage(0.9))
        return trainer

    unbroken = build(tmp_path / "unbroken")
    train(unbroken, manager)
    with pytest.raises(Interrupted):
        train(build(tmp_path / "broken", At(5, raise_it)), manager)
    resumed = build(tmp_path / "broken")
    train(resumed, manager)
    assert kit.same(outcome(unbroken), outcome(resumed))


class Growing:
    """A loss with a state of its own."""

    def __init__(self, loss):
        self.loss, self.calls = loss, 0

    def __call__(self, prediction, target):
        self.calls += 1
        return self.loss(prediction, target) * (1 + 0.1 * self.calls)

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]


def test_the_state_of_a_loss_is_kept(kit, tmp_path, manager):
    def build(path, *callbacks):
        return full(kit, path, *callbacks, losses={"mse": Growing(kit.loss)}, val_score_key="rmse")

    unbroken = build(tmp_path / "unbroken")
    train(unbroken, manager)
    with pytest.raises(Interrupted):
        train(build(tmp_path / "broken", At(5, raise_it)), manager)
    resumed = build(tmp_path / "broken")
    expected = resumed.load_state(resumed.checkpoints.path("last"))["losses"]["mse"]["calls"]
    assert resumed.losses["mse"].calls == expected > 3


class Damage(AbstractCallback):
    """Damages the best checkpoint when the training is over."""

    def at_training_end(self, trainer, **facts):
        path = trainer.checkpoints.path("best")
        path.unlink()
        path.write_bytes(b"damaged")


def test_a_damaged_best_checkpoint_does_not_lose_the_run(kit, tmp_path, manager):
    trainer = full(kit, tmp_path, Damage(), save_freq=None, save_freq_steps=None)
    with pytest.warns(RuntimeWarning, match="checkpoint_best.* is not a complete checkpoint file"):
        network = train(trainer, manager)
    assert network is trainer.module


@pytest.mark.sampled("values")
@pytest.mark.parametrize("moment", ["validation", "rollback"])
def test_a_loader_of_the_user_s_is_where_the_run_is(kit, tmp_path, regression, moment):
    batches = [regression(4, 3, seed) for seed in range(4)]
    held_out = [regression(4), regression(3)]
    unbroken = full(kit, tmp_path / "unbroken")
    unbroken.train(3, Loader(batches), held_out)
    if moment == "validation":

        class Killer:
            over = "sample"

            def __call__(self, y_true, y_pred):
                if trainer.state.epoch == 1:
                    os.kill(os.getpid(), signal.SIGTERM)
                return 0.0

        trainer = full(kit, tmp_path / "broken", val_metrics={"killer": Killer()}, save_freq_steps=None)
        with pytest.raises(TrainingInterrupted):
            trainer.train(3, Loader(batches), held_out)
        resumed = full(kit, tmp_path / "broken")
        assert (resumed.state.epoch, resumed.state.step_in_epoch) == (1, 4)
        resumed.train(3, Loader(batches), held_out)
        assert resumed.state.global_step == unbroken.state.global_step
        assert kit.same(outcome(unbroken)["weights"], outcome(resumed)["weights"])
        return
    broken, loader = full(kit, tmp_path / "broken", At(6, raise_it), save_freq_steps=None), Loader(batches)
    with pytest.raises(Interrupted):
        broken.train(3, loader, held_out)
    broken.train(3, loader, held_out)  # the epoch anew, from its first batch
    assert broken.state.global_step == unbroken.state.global_step


def test_a_file_of_the_user_s_holds_weights_and_counters_that_belong_together(kit, tmp_path, manager):
    from scripted import scripted

    trainer = kit.trainer(
        tmp_path, val_metrics={"score": scripted(3, 1, 2)}, val_score_key="score", val_score_mode="min"
    )
    trainer.train(3, manager(), manager(7))
    kept = trainer.load_state(trainer.save_state(tmp_path / "mine"))
    assert kept["epoch"] == kept["state"]["epoch"] == trainer.state.best_epoch == 2
    assert kit.same(kept["model"], trainer.backend.checkpoints.state_tree(trainer.module, {})["model"])


def test_a_file_after_a_failure_holds_weights_alone(kit, tmp_path, manager):
    trainer = full(kit, tmp_path, At(5, raise_it))
    with pytest.raises(Interrupted):
        train(trainer, manager)
    kept = trainer.load_state(trainer.save_state(tmp_path / "mine"))
    assert "state" not in kept
    assert kit.same(kept["model"], trainer.backend.checkpoints.state_tree(trainer.module, {})["model"])


def test_the_working_directory_may_change(kit, tmp_path, manager, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)

    class Move:
        def at_iter_end(self, trainer, **facts):
            monkeypatch.chdir(tmp_path / "elsewhere")

    trainer = full(kit, "run", Move())
    train(trainer, manager)
    assert not list((tmp_path / "elsewhere").iterdir())
    monkeypatch.chdir(tmp_path)
    assert full(kit, "run").state.epoch == 3


def test_a_run_whose_checkpoints_could_not_be_written_says_that_it_goes_back(kit, tmp_path, manager, caplog):
    from scripted import scripted

    trainer = kit.trainer(
        tmp_path, val_metrics={"score": scripted(3, 1, 2, 2)}, val_score_key="score", val_score_mode="min", save_freq=1
    )
    trainer.train(3, manager(), manager(7))
    for name in ("last", "epoch_3"):
        trainer.checkpoints.path(name).unlink()
    trainer.saver.note_last()
    trainer.train(3, manager(), manager(7))
    assert "the run goes back to epoch 2, the last that was written" in caplog.text


def test_an_empty_state_is_a_state(kit, tmp_path, manager):
    moments = Moments()
    trainer = kit.trainer(tmp_path, callbacks=[moments], nonfinite="rollback")
    assert trainer.callbacks.state_dict()["Moments"] == {}
    moments.heard = {"step ends": 5}
    trainer.callbacks.load_state_dict({"Moments": {}})
    assert moments.heard == {}


def test_an_interruption_can_be_sent_between_processes():
    error = pickle.loads(pickle.dumps(TrainingInterrupted(signal.SIGTERM, "stopped")))
    assert (error.code, error.number, str(error)) == (143, signal.SIGTERM, "stopped")


@pytest.mark.parametrize("field", ["history", "callbacks", "accumulators", "generators", "loader"])
def test_a_state_of_the_wrong_kind_is_refused(field):
    with pytest.raises(CheckpointError, match=f"training state has a int as '{field}'"):
        TrainingState.from_tree({"epoch": 1, field: 3})


def test_weights_that_a_callback_froze_stay_frozen(tmp_path, manager, caplog):
    torch = pytest.importorskip("torch")
    from delira.models import AbstractPyTorchNetwork
    from delira.training import PyTorchNetworkTrainer

    class Net(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)

        def forward(self, x):
            return {"pred": self.second(self.first(x))}

    class Freeze:
        def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
            trainer.module.first.requires_grad_(curr_epoch == 1)

    def build(path, *callbacks):
        torch.manual_seed(0)
        return PyTorchNetworkTrainer(
            Net(), path, losses={"mse": torch.nn.functional.mse_loss}, optimizer_cls=torch.optim.SGD, logging_type=None,
            optimizer_params={"lr": 0.1}, verbose=False, save_freq_steps=1, callbacks=[Freeze(), *callbacks],
        )  # fmt: skip

    unbroken = build(tmp_path / "unbroken")
    unbroken.train(3, manager())
    with pytest.raises(Interrupted):
        build(tmp_path / "broken", At(5, raise_it)).train(3, manager())
    resumed = build(tmp_path / "broken")
    assert "weights are frozen and learned as when the checkpoint was written" in caplog.text
    resumed.train(3, manager())
    for name, weight in unbroken.network.state_dict().items():
        assert np.array_equal(weight, resumed.network.state_dict()[name])


def test_if_all_checkpoints_are_damaged_an_explicit_resume_is_refused(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, training={"save_freq": 1})
    experiment.run(manager())
    run = experiment.last_trainer.save_path.parent
    for path in experiment.last_trainer.checkpoints.folder.iterdir():
        path.write_bytes(b"damaged")
    with (
        pytest.warns(RuntimeWarning, match="an earlier checkpoint is looked for"),
        pytest.raises(CheckpointError, match="no valid checkpoint is left in"),
    ):
        experiment.run(manager(), resume=run, num_epochs=3)


@pytest.mark.parametrize("resume", [True, 3])
def test_what_is_no_path_is_refused(kit, tmp_path, manager, resume):
    experiment = kit.experiment(tmp_path)
    for call in (experiment.run, experiment.kfold):
        with pytest.raises(ConfigError, match=f"resume must be 'auto', a path or None, got {resume}"):
            call(manager(20), resume=resume, **({"num_splits": 2} if call == experiment.kfold else {}))


def test_a_cross_validation_continues_from_what_a_signal_named(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path)
    result = experiment.kfold(manager(20), num_splits=2, num_epochs=2)
    again = experiment.kfold(manager(20), num_splits=2, num_epochs=2, resume=result.path / "fold_01" / "checkpoints")
    assert again.path == result.path


@pytest.mark.parametrize("name", ["save_on_signal", "save_in_background", "deterministic"])
def test_a_flag_is_true_or_false(kit, tmp_path, name):
    with pytest.raises(ConfigError, match=f"{name} must be True or False, got 'no'"):
        kit.trainer(tmp_path, **{name: "no"})


def test_a_state_that_nobody_takes_is_named(kit, tmp_path, manager, caplog):
    with pytest.raises(Interrupted):
        train(full(kit, tmp_path, ExponentialMovingAverage(0.9), At(5, raise_it)), manager)
    train(full(kit, tmp_path), manager)
    assert "the checkpoint has the state of ExponentialMovingAverage, which this training does not have" in caplog.text


def test_a_batch_that_is_skipped_leaves_no_trace_in_normalisation_layers(tmp_path, caplog):
    torch = pytest.importorskip("torch")
    from delira.models import AbstractPyTorchNetwork
    from delira.training import PyTorchNetworkTrainer

    class Net(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)

        def forward(self, x):
            return {"pred": self.linear(self.norm(x))}

    rng = np.random.default_rng(0)
    arrays = {"data": rng.normal(size=(12, 3)), "label": rng.normal(size=(12, 1))}
    arrays["data"][5] = np.nan
    trainer = PyTorchNetworkTrainer(
        Net(), tmp_path, losses={"mse": torch.nn.functional.mse_loss}, optimizer_cls=torch.optim.SGD, logging_type=None,
        optimizer_params={"lr": 0.1}, verbose=False, nonfinite="skip",
    )  # fmt: skip
    trainer.train(2, BaseDataManager(arrays, 4))
    assert all(torch.isfinite(value).all() for value in trainer.network.state_dict().values())
    assert trainer.network.norm.num_batches_tracked == 4  # of six
    assert "epoch 1: 1 of 3 updates were left out, since their loss or gradients were not finite" in caplog.text
