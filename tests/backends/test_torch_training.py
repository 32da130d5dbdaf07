"""The PyTorch trainer: modes, devices, threads, signatures, historic spellings, event files."""

import inspect
import pydoc
import warnings

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError

torch = pytest.importorskip("torch")

from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import PyTorchExperiment, PyTorchNetworkTrainer  # noqa: E402

MSE = torch.nn.functional.mse_loss
FLAT = (
    "losses",
    "loss_keys",
    "train_metrics",
    "val_metrics",
    "metrics",
    "metric_keys",
    "optimizer_cls",
    "optimizer_params",
    "optim_fn",
    "lr_scheduler_cls",
    "lr_scheduler_params",
    "gradient_accumulation_steps",
    "gradient_clip_norm",
    "gradient_clip_value",
    "mixed_precision",
    "logging_type",
    "logging_kwargs",
    "log_freq",
    "verbose",
    "gpu_ids",
    "device",
    "num_threads",
    "save_freq",
    "val_freq",
    "val_score_key",
    "val_score_mode",
    "reduce_mode",
    "nonfinite",
    "seed",
    "convert_batch_to_npy_fn",
    "extra",
)


class Net(AbstractPyTorchNetwork):
    """Batch norm and dropout: what behaves differently in training."""

    def __init__(self, dropout=0.5):
        super().__init__(dropout=dropout)
        self.norm = torch.nn.BatchNorm1d(3)
        self.drop = torch.nn.Dropout(dropout)
        self.linear = torch.nn.Linear(3, 1)

    def forward(self, x):
        return {"pred": self.linear(self.drop(self.norm(x)))}


@pytest.fixture
def manager():
    rng = np.random.default_rng(4)
    arrays = {"data": rng.normal(size=(12, 3)) * 3 + 1, "label": rng.normal(size=(12, 1))}
    return BaseDataManager({name: array.astype(np.float32) for name, array in arrays.items()}, batch_size=4)


SETTINGS = {
    "losses": {"mse": MSE},
    "optimizer_cls": torch.optim.SGD,
    "optimizer_params": {"lr": 0.05},
    "logging_type": None,
    "verbose": False,
}


def trainer_of(network, path, **settings):
    return PyTorchNetworkTrainer(network, path, **{**SETTINGS, **settings})


def modes(network):
    return [module.training for module in network.modules()]


class Watch:
    """Notes the network's modes, the gradients and the threads during training."""

    def __init__(self):
        self.seen = set()

    def at_iter_end(self, trainer, **facts):
        self.seen.add((all(modes(trainer.network)), torch.is_grad_enabled(), torch.get_num_threads()))


# ---- modes


@pytest.mark.parametrize("was_training", [True, False])
def test_after_training_the_network_predicts_and_gradients_are_those_of_the_caller(was_training, manager, tmp_path):
    network, watch = Net(), Watch()
    network.train(was_training)
    with torch.set_grad_enabled(was_training):
        trainer_of(network, tmp_path, callbacks=[watch]).train(2, manager, manager)
        assert torch.is_grad_enabled() == was_training
    assert modes(network) == [False] * 4
    assert watch.seen == {(True, True, torch.get_num_threads())}


def test_modes_are_those_of_the_caller_again_after_a_failure(manager, tmp_path):
    class Failing:
        def at_iter_end(self, trainer, **facts):
            raise RuntimeError("on purpose")

    network = Net().eval()
    with pytest.raises(RuntimeError, match="on purpose"):
        trainer_of(network, tmp_path, callbacks=[Failing()]).train(1, manager)
    assert not any(modes(network))


def test_validation_uses_and_does_not_change_the_running_statistics(manager, tmp_path):
    network, statistics = Net(), []

    class AfterTheSteps:
        def at_iter_end(self, trainer, **facts):
            statistics.append(network.norm.running_mean.clone())

    trainer = trainer_of(network, tmp_path, callbacks=[AfterTheSteps()], val_metrics={"mae": mean_absolute_error})
    trainer.train(1, manager, manager)
    assert torch.equal(network.norm.running_mean, statistics[-1])
    assert not torch.equal(statistics[0], statistics[1])

    arrays = manager.dataset.data
    with torch.no_grad():
        expected = network.eval()(torch.from_numpy(arrays["data"]))["pred"].numpy()
    assert trainer.state.history[-1]["val_mae"] == pytest.approx(np.abs(expected - arrays["label"]).mean(), rel=1e-5)


def mean_absolute_error(y_true, y_pred):
    return np.abs(y_true - y_pred).mean()


def test_the_look_at_the_first_batch_leaves_the_running_statistics_alone(manager, tmp_path):
    network = Net()

    class BeforeTheFirstStep:
        def at_iter_begin(self, trainer, *, global_iter_num, **facts):
            if global_iter_num == 0:
                self.mean = network.norm.running_mean.clone()

    callback = BeforeTheFirstStep()
    trainer_of(network, tmp_path, callbacks=[callback]).train(1, manager, manager)
    assert not callback.mean.any()


@pytest.mark.parametrize("was_training", [True, False])
def test_prediction_is_deterministic_and_restores_modes_and_gradients(was_training, manager, tmp_path):
    network = Net().train(was_training)
    trainer = trainer_of(network, tmp_path)
    batch = next(iter(manager))
    assert np.array_equal(trainer.predict(batch)["pred"], trainer.predict(batch)["pred"])
    assert modes(network) == [was_training] * len(modes(network))
    assert torch.is_grad_enabled()
    for _ in trainer.predict_data_mgr(manager):  # between two batches as well
        assert modes(network) == [was_training] * len(modes(network))
        assert torch.is_grad_enabled()


def test_the_caller_s_generator_is_not_moved(manager, tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(3)
    network = Net()
    torch.manual_seed(3)
    trainer_of(network, tmp_path).train(2, manager)
    assert torch.equal(torch.rand(3), expected)


# ---- devices and threads


def test_losses_with_weights_go_where_the_targets_are():
    loss = torch.nn.CrossEntropyLoss(weight=torch.ones(3))
    meta, backend = torch.device("meta"), PyTorchNetworkTrainer.backend
    network = backend.devices.place(
        Net(), {"ce": loss, "mse": MSE}, type(backend.devices.resolve((), None))(meta, meta)
    )
    assert loss.weight.device.type == "meta"
    assert {parameter.device.type for parameter in network.parameters()} == {"meta"}


def test_training_metrics_with_buffers_go_where_the_targets_are(manager, tmp_path, monkeypatch):
    moved = []
    backend = PyTorchNetworkTrainer.backend
    metric = torch.nn.L1Loss()
    monkeypatch.setattr(metric, "to", moved.append, raising=False)
    trainer_of(Net(), tmp_path, train_metrics={"mae": metric})
    assert moved == [backend.devices.resolve((), None).output]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({"gpu_ids": [0]}, r"gpu_ids=\[0\]"),
        ({"device": "cuda"}, "device='cuda'"),
        ({"device": "cuda:1"}, "device='cuda:1'"),
    ],
)
def test_a_gpu_that_is_not_there_is_an_error_and_not_the_cpu(settings, asked, tmp_path):
    with pytest.raises(ConfigError, match=rf"{asked} was asked for, but PyTorch sees no GPU; .*device='cpu' or 'auto'"):
        trainer_of(Net(), tmp_path, **settings)


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="there are several GPUs here")
def test_several_gpus_are_refused_where_they_are_not(tmp_path):
    with pytest.raises(ConfigError, match=r"gpu_ids=\[0, 1\].* sees .*device='cpu' with devices=2 trains on the CPU"):
        trainer_of(Net(), tmp_path, gpu_ids=[0, 1])


@pytest.mark.parametrize("ids", [[0], [0, 1]])
def test_gpu_ids_and_device_together_are_refused(tmp_path, ids):
    with pytest.raises(ConfigError, match=r"gpu_ids=\[0.*\] and device='cpu' say the same; give only one of them"):
        trainer_of(Net(), tmp_path, gpu_ids=ids, device="cpu")


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cpu:0:0"])
def test_an_unknown_device_is_refused(device, tmp_path):
    with pytest.raises(ConfigError, match=f"device='{device}' is no device of PyTorch"):
        trainer_of(Net(), tmp_path, device=device)


@pytest.mark.parametrize("gpu_ids", [0, "0", [-1], [0.5], [True]])
def test_gpu_ids_that_are_no_list_of_numbers_are_refused(gpu_ids, tmp_path):
    with pytest.raises(ConfigError, match="gpu_ids"):
        trainer_of(Net(), tmp_path, gpu_ids=gpu_ids)


def test_auto_takes_the_gpu_if_there_is_one(tmp_path):
    trainer = trainer_of(Net(), tmp_path, device="auto")
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert trainer.input_device.type == trainer.output_device.type == expected
    assert {parameter.device.type for parameter in trainer.network.parameters()} == {expected}


@pytest.mark.parametrize("settings", [{}, {"gpu_ids": []}, {"device": "cpu"}, {"gpu_ids": None, "device": None}])
def test_the_cpu_is_the_default(settings, tmp_path):
    assert trainer_of(Net(), tmp_path, **settings).input_device == torch.device("cpu")


def test_num_threads_holds_during_training_only(manager, tmp_path):
    before, watch = torch.get_num_threads(), Watch()
    trainer_of(Net(), tmp_path, num_threads=before + 1, callbacks=[watch]).train(1, manager)
    assert {threads for _, _, threads in watch.seen} == {before + 1}
    assert torch.get_num_threads() == before


def test_num_threads_is_given_back_after_a_failure(manager, tmp_path):
    before = torch.get_num_threads()
    trainer = trainer_of(Net(), tmp_path, num_threads=before + 1, val_metrics={"bad": lambda label, pred: 1 / 0})
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        trainer.train(1, manager, manager)
    assert torch.get_num_threads() == before


# ---- what help() and editors show


@pytest.mark.parametrize(
    "function",
    [PyTorchNetworkTrainer, PyTorchExperiment, PyTorchExperiment.run, PyTorchExperiment.kfold],
    ids=["trainer", "experiment", "run", "kfold"],
)
def test_signatures_show_every_flat_keyword(function):
    parameters = inspect.signature(function).parameters
    assert [name for name in FLAT if name not in parameters] == []
    assert "kwargs" not in parameters
    assert "settings" not in parameters
    assert "self" not in parameters or function.__name__ in ("run", "kfold")


def test_the_signature_of_the_trainer_begins_as_it_always_did():
    assert list(inspect.signature(PyTorchNetworkTrainer).parameters)[:4] == [
        "network",
        "save_path",
        "key_mapping",
        "losses",
    ]


def test_defaults_in_the_signature_are_those_that_hold(tmp_path):
    parameters = inspect.signature(PyTorchNetworkTrainer).parameters
    config = trainer_of(Net(), tmp_path).config
    for name in ("seed", "val_freq", "val_score_mode", "reduce_mode", "num_threads"):
        assert parameters[name].default == getattr(config, name)
    assert parameters["save_freq"].default == config.saving.freq
    assert parameters["nonfinite"].default == config.guards.nonfinite
    assert parameters["gradient_accumulation_steps"].default == config.update.accumulation_steps
    assert parameters["mixed_precision"].default is False
    assert config.update.precision == "32"


def test_kfold_shows_how_the_samples_are_divided():
    parameters = inspect.signature(PyTorchExperiment.kfold).parameters
    for name in ("num_splits", "split_type", "shuffle", "random_seed", "val_split", "label_key", "groups_key"):
        assert name in parameters
    assert parameters["val_split"].default == 0.2


def test_help_shows_the_keywords():
    text = pydoc.plain(pydoc.render_doc(PyTorchNetworkTrainer))
    for name in FLAT:
        assert f"{name}:" in text


# ---- historic spellings


def test_criterions_is_the_old_name_of_losses(tmp_path):
    settings = {name: value for name, value in SETTINGS.items() if name != "losses"}
    with pytest.warns(DeprecationWarning, match="'criterions' is now called 'losses'"):
        trainer = PyTorchNetworkTrainer(Net(), tmp_path, criterions={"mse": MSE}, **settings)
    assert trainer.losses == {"mse": MSE}


def test_criterions_and_losses_together_are_refused(tmp_path):
    with (
        pytest.warns(DeprecationWarning, match="'criterions' is now called 'losses'"),
        pytest.raises(ConfigError, match="'criterions' and 'losses' mean the same; give only one of them"),
    ):
        trainer_of(Net(), tmp_path, criterions={"mse": MSE})


def test_losses_as_third_positional_argument_are_taken_with_a_warning(tmp_path):
    settings = {name: value for name, value in SETTINGS.items() if name != "losses"}
    with pytest.warns(DeprecationWarning, match="the third argument is key_mapping; pass losses by name"):
        trainer = PyTorchNetworkTrainer(Net(), tmp_path, {"mse": MSE}, **settings)
    assert trainer.losses == {"mse": MSE}
    assert trainer.key_mapping == {"x": "data"}


def test_a_key_mapping_as_third_positional_argument_warns_of_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings = {name: value for name, value in SETTINGS.items() if name != "losses"}
        trainer = PyTorchNetworkTrainer(Net(), tmp_path, {"x": "data"}, {"mse": MSE}, **settings)
    assert trainer.key_mapping == {"x": "data"}
    assert trainer.losses == {"mse": MSE}


@pytest.mark.parametrize(
    ("alias", "value", "read"),
    [
        ("lr_sched_cls", torch.optim.lr_scheduler.StepLR, lambda config: config.schedule.cls),
        ("checkpoint_freq", 3, lambda config: config.saving.freq),
        ("optim_builder", lambda model, cls, **params: {"default": cls(model.parameters(), **params)}, None),
    ],
)
def test_other_spellings_are_understood(alias, value, read, tmp_path):
    more = {"lr_sched_params": {"step_size": 1}} if alias == "lr_sched_cls" else {}
    trainer = trainer_of(Net(), tmp_path, **{alias: value}, **more)
    assert (trainer.config.optimizer.builder if read is None else read(trainer.config)) is value


# ---- event files


def test_event_files_hold_every_value_of_every_epoch(manager, tmp_path):
    pytest.importorskip("tensorboardX")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings = {"logging_type": "tensorboardx", "val_metrics": {"mae": mean_absolute_error}}
    trainer = trainer_of(Net(), tmp_path, **settings)
    trainer.train(2, manager, manager)
    again = trainer_of(Net(), tmp_path, **settings)
    again.train(3, manager, manager)

    events = accumulator.EventAccumulator(str(tmp_path / "logs"))
    events.Reload()
    names = {"mse", "val_mse", "val_mae", "lr"}
    assert set(events.Tags()["scalars"]) == names
    for name in names:
        scalars = events.Scalars(name)
        assert [scalar.step for scalar in scalars] == [1, 2, 3]
        expected = [record[name] for record in again.state.history]
        assert [scalar.value for scalar in scalars] == pytest.approx(expected, rel=1e-6)


def test_epochs_that_a_restart_repeats_are_not_shown_twice(manager, tmp_path):
    pytest.importorskip("tensorboardX")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    trainer_of(Net(), tmp_path, logging_type="tensorboardx").train(3, manager)
    for name in ("last", "epoch_3", "epoch_2"):  # the last two epochs are lost
        (tmp_path / "checkpoints" / f"checkpoint_{name}.pt").unlink()
    trainer_of(Net(), tmp_path, logging_type="tensorboardx").train(3, manager)
    events = accumulator.EventAccumulator(str(tmp_path / "logs"))
    events.Reload()
    assert [scalar.step for scalar in events.Scalars("mse")] == [1, 2, 3]


def test_no_event_files_are_written_if_none_are_wanted(manager, tmp_path):
    trainer_of(Net(), tmp_path, logging_type=None).train(1, manager)
    assert not (tmp_path / "logs").exists()
