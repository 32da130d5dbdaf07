"""Learning-rate schedules of PyTorch: each follows the schedule of torch that it is named after."""

import math

import numpy as np
import pytest
from scripted import scripted

from delira.errors import ConfigError

torch = pytest.importorskip("torch")

from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import (  # noqa: E402
    PyTorchExperiment,
    PyTorchNetworkTrainer,
    create_optims_gan_default_pytorch,
)
from delira.training.callbacks import (  # noqa: E402
    CosineAnnealingLRCallbackPyTorch,
    DefaultPyTorchSchedulerCallback,
    ExponentialLRCallbackPyTorch,
    LambdaLRCallbackPyTorch,
    MultiStepLRCallbackPyTorch,
    OneCycleLRCallbackPyTorch,
    ReduceLROnPlateauCallbackPyTorch,
    StepLRCallbackPyTorch,
    TorchSchedulerCallback,
)

schedules = torch.optim.lr_scheduler
N_EPOCHS, N_BATCHES = 6, 3


def quadratic(epoch):
    return 1 / (1 + epoch) ** 2


#: callback, schedule of torch, its arguments by name, the same by position
PER_EPOCH = [
    (StepLRCallbackPyTorch, schedules.StepLR, {"step_size": 2, "gamma": 0.3}, (2, 0.3)),
    (MultiStepLRCallbackPyTorch, schedules.MultiStepLR, {"milestones": [1, 4], "gamma": 0.5}, ([1, 4], 0.5)),
    (ExponentialLRCallbackPyTorch, schedules.ExponentialLR, {"gamma": 0.7}, (0.7,)),
    (CosineAnnealingLRCallbackPyTorch, schedules.CosineAnnealingLR, {"T_max": 4, "eta_min": 0.01}, (4, 0.01, -1)),
    (LambdaLRCallbackPyTorch, schedules.LambdaLR, {"lr_lambda": quadratic}, (quadratic, -1)),
]
ONE_CYCLE = {"max_lr": 0.3, "total_steps": N_EPOCHS * N_BATCHES}


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    def forward(self, x):
        return {"pred": self.linear(x)}


class Pair(AbstractPyTorchNetwork):
    """Two optimizers."""

    def __init__(self):
        super().__init__()
        self.gen, self.discr = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)

    def forward(self, x):
        return {"pred": self.gen(x)}

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, **kwargs):
        for name, optimizer in optimizers.items():
            loss = losses["mse"](getattr(model, name)(data_dict["data"]), data_dict["label"])
            optimizer.zero_grad()
            with optimizer.scale_loss(loss) as scaled:
                scaled.backward()
            optimizer.step()
        return {"mse": loss.detach()}, {}


class Rates:
    """Notes the learning rate of every step."""

    def __init__(self, optimizer="default"):
        self.optimizer, self.rates = optimizer, []

    def at_iter_begin(self, trainer, **facts):
        self.rates.append(trainer.optimizers[self.optimizer].param_groups[0]["lr"])


class Stream:
    """Batches whose number is not known."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


def data(n_batches=N_BATCHES, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {"data": rng.normal(size=(4, 3)).astype(np.float32), "label": rng.normal(size=(4, 1)).astype(np.float32)}
        for _ in range(n_batches)
    ]


def trainer_of(path, cls=Net, **settings):
    torch.manual_seed(0)
    defaults = {
        "losses": {"mse": torch.nn.functional.mse_loss},
        "optimizer_cls": torch.optim.SGD,
        "optimizer_params": {"lr": 0.1, "momentum": 0.9},
        "logging_type": None,
        "verbose": False,
        "save_freq": None,
    }
    return PyTorchNetworkTrainer(cls(), path, **{**defaults, **settings})


def rates_of(path, num_epochs=N_EPOCHS, train=None, val=None, **settings):
    rates = Rates()
    callbacks = [*settings.pop("callbacks", ()), rates]
    trainer_of(path, callbacks=callbacks, **settings).train(num_epochs, train or data(), val)
    return rates.rates


def rates_by_hand(make, step_on="epoch", scores=None, every=1):
    """Learning rates of all steps, as torch's own schedule gives them in a plain loop."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.9)
    schedule, rates = make(optimizer), []
    for epoch in range(N_EPOCHS):
        for batch in range(N_BATCHES):
            rates.append(optimizer.param_groups[0]["lr"])
            if (batch + 1) % every and batch + 1 != N_BATCHES:
                continue
            optimizer.step()
            if step_on == "iter":
                schedule.step()
        if step_on == "epoch":
            schedule.step(*(() if scores is None else (scores[epoch],)))
    return rates


def schedule_of(trainer):
    (callback,) = (callback for callback in trainer.callbacks if isinstance(callback, TorchSchedulerCallback))
    return callback.scheduler


# ---- once for each epoch


@pytest.mark.parametrize(("callback", "torch_cls", "params", "positional"), PER_EPOCH)
@pytest.mark.parametrize("given_as", ["callback class", "torch class", "callback", "positional", "generic callback"])
def test_a_schedule_gives_the_rates_of_torch(given_as, callback, torch_cls, params, positional, tmp_path):
    settings = {
        "callback class": lambda: {"lr_scheduler_cls": callback, "lr_scheduler_params": params},
        "torch class": lambda: {"lr_scheduler_cls": torch_cls, "lr_scheduler_params": params},
        "callback": lambda: {"callbacks": [callback("default", **params)]},
        "positional": lambda: {"callbacks": [callback("default", *positional)]},
        "generic callback": lambda: {"callbacks": [TorchSchedulerCallback("default", torch_cls, **params)]},
    }[given_as]()
    expected = rates_by_hand(lambda optimizer: torch_cls(optimizer, **params))
    assert rates_of(tmp_path, **settings) == expected
    assert len(set(expected)) > 2


def test_the_history_holds_the_rate_with_which_each_epoch_was_trained(tmp_path):
    trainer = trainer_of(tmp_path, lr_scheduler_cls=StepLRCallbackPyTorch, lr_scheduler_params={"step_size": 1})
    trainer.train(3, data())
    assert [record["lr"] for record in trainer.state.history] == pytest.approx([0.1, 0.01, 0.001])


def test_any_schedule_of_torch_can_be_stepped_after_each_update(tmp_path):
    params = {"step_size": 4, "gamma": 0.5}
    expected = rates_by_hand(lambda optimizer: schedules.StepLR(optimizer, **params), "iter")
    as_setting = {"lr_scheduler_cls": schedules.StepLR, "lr_scheduler_params": {**params, "step_on": "iter"}}
    as_callback = {"callbacks": [TorchSchedulerCallback("default", schedules.StepLR, step_on="iter", **params)]}
    assert rates_of(tmp_path / "setting", **as_setting) == expected
    assert rates_of(tmp_path / "callback", **as_callback) == expected


def test_a_function_may_build_the_schedule(tmp_path):
    def warm_up_then_decay(optimizer):
        warm_up = schedules.LinearLR(optimizer, start_factor=0.1, total_iters=2)
        return schedules.SequentialLR(optimizer, [warm_up, schedules.ExponentialLR(optimizer, 0.5)], milestones=[2])

    expected = rates_by_hand(warm_up_then_decay)
    assert rates_of(tmp_path, lr_scheduler_cls=warm_up_then_decay) == expected


def test_a_callback_takes_the_optimizer_itself(tmp_path):
    """As in the historic library: of a trainer, or the torch optimizer in it."""
    expected = rates_by_hand(lambda optimizer: schedules.ExponentialLR(optimizer, 0.5))
    for name in ("wrapped", "bare"):
        rates = Rates()
        trainer = trainer_of(tmp_path / name, callbacks=[rates])
        optimizer = trainer.optimizers["default"]
        trainer.register_callback(
            ExponentialLRCallbackPyTorch(optimizer if name == "wrapped" else optimizer.optimizer, 0.5)
        )
        trainer.train(N_EPOCHS, data())
        assert rates.rates == expected


def test_the_historic_setting_names_reach_the_schedule_through_an_experiment(tmp_path):
    training = {
        "losses": {"mse": torch.nn.functional.mse_loss},
        "optimizer_cls": torch.optim.SGD,
        "optimizer_params": {"lr": 0.1},
        "lr_sched_cls": StepLRCallbackPyTorch,
        "lr_sched_params": {"step_size": 1, "gamma": 0.5},
        "logging_type": None,
        "verbose": False,
    }
    experiment = PyTorchExperiment({"training": training}, Net, n_epochs=2, save_path=tmp_path)
    for _ in range(2):  # nothing of the first run leaks into the second
        trainer = experiment.setup()
        trainer.train(2, data())
        assert [record["lr"] for record in trainer.state.history] == [0.1, 0.05]


def test_a_callback_given_to_an_experiment_starts_anew_in_every_run(tmp_path):
    schedule = StepLRCallbackPyTorch("default", 1, 0.5)
    training = {
        "losses": {"mse": torch.nn.functional.mse_loss},
        "optimizer_cls": torch.optim.SGD,
        "optimizer_params": {"lr": 0.1},
        "callbacks": [schedule],
        "logging_type": None,
        "verbose": False,
    }
    experiment = PyTorchExperiment({"training": training}, Net, n_epochs=2, save_path=tmp_path)
    for _ in range(2):
        trainer = experiment.setup()
        trainer.train(2, data())
        assert [record["lr"] for record in trainer.state.history] == [0.1, 0.05]
    assert schedule.scheduler is None


# ---- plateau


@pytest.mark.parametrize("given_as", ["callback class", "torch class", "positional"])
@pytest.mark.parametrize("mode", ["min", "max"])
def test_plateau_looks_at_the_validation_score(mode, given_as, tmp_path):
    scores = {"min": [5.0, 4.0, 4.5, 4.6, 4.7, 1.0], "max": [1.0, 2.0, 1.5, 1.4, 1.3, 9.0]}[mode]
    params = {"mode": mode, "factor": 0.5, "patience": 1}
    settings = {
        "callback class": {"lr_scheduler_cls": ReduceLROnPlateauCallbackPyTorch, "lr_scheduler_params": params},
        "torch class": {"lr_scheduler_cls": schedules.ReduceLROnPlateau, "lr_scheduler_params": params},
        "positional": {"callbacks": [ReduceLROnPlateauCallbackPyTorch("default", mode, 0.5, 1, False)]},
    }[given_as]
    rates = rates_of(
        tmp_path,
        val=data(1),
        val_metrics={"score": scripted(*scores)},
        val_score_key="score",
        val_score_mode=mode,
        **settings,
    )
    expected = rates_by_hand(lambda optimizer: schedules.ReduceLROnPlateau(optimizer, **params), scores=scores)
    assert rates == expected
    assert len(set(expected)) == 2


def test_plateau_waits_for_epochs_that_are_validated(tmp_path):
    callback = ReduceLROnPlateauCallbackPyTorch("default", factor=0.5, patience=0)
    rates_of(
        tmp_path,
        val=data(1),
        val_freq=2,
        val_metrics={"score": scripted(3.0, 4.0, 5.0)},
        val_score_key="val_score",
        val_score_mode="min",
        callbacks=[callback],
    )
    assert callback.scheduler.last_epoch == 3
    assert callback.scheduler.get_last_lr() == [0.1 * 0.5 * 0.5]


def test_plateau_may_watch_any_value_of_the_epoch(tmp_path):
    trainer = trainer_of(
        tmp_path,
        lr_scheduler_cls=schedules.ReduceLROnPlateau,
        lr_scheduler_params={"monitor": "mse", "patience": 0, "factor": 0.5},
        optimizer_params={"lr": 0.9, "momentum": 0.9},  # too large: the loss goes up
    )
    trainer.train(N_EPOCHS, data())
    losses = [record["mse"] for record in trainer.state.history]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.9)
    expected = schedules.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
    for loss in losses:
        expected.step(loss)
    assert trainer.optimizers["default"].param_groups[0]["lr"] == optimizer.param_groups[0]["lr"] < 0.9


def test_the_ten_historic_arguments_of_plateau_reach_torch_by_position(tmp_path):
    callback = ReduceLROnPlateauCallbackPyTorch("default", "max", 0.2, 3, False, 1e-3, "abs", 2, 1e-4, 1e-6)
    trainer_of(tmp_path, callbacks=[callback])
    schedule = callback.scheduler
    found = (schedule.mode, schedule.factor, schedule.patience, schedule.threshold, schedule.threshold_mode)
    assert found == ("max", 0.2, 3, 1e-3, "abs")
    assert (schedule.cooldown, schedule.min_lrs, schedule.eps) == (2, [1e-4], 1e-6)


def test_plateau_understands_the_modes_of_delira(tmp_path):
    callback = ReduceLROnPlateauCallbackPyTorch("default", mode="highest")
    trainer_of(tmp_path, callbacks=[callback])
    assert callback.scheduler.mode == "max"


@pytest.mark.parametrize("val_score_key", [None, "mse"])
def test_plateau_without_validation_is_refused_before_the_first_step(val_score_key, tmp_path, recwarn):
    trainer = trainer_of(
        tmp_path, lr_scheduler_cls=ReduceLROnPlateauCallbackPyTorch, val_score_key=val_score_key, verbose=False
    )
    before = trainer.network.linear.weight.detach().clone()
    with pytest.raises(ConfigError, match="ReduceLROnPlateau needs a value to look at: train with validation data"):
        trainer.train(1, data())
    assert trainer.state.global_step == 0
    assert torch.equal(trainer.network.linear.weight, before)


def test_plateau_that_watches_an_absent_value_says_what_there_is(tmp_path):
    callback = ReduceLROnPlateauCallbackPyTorch("default", monitor="accuracy")
    with pytest.raises(ConfigError, match=r"ReduceLROnPlateau looks at 'accuracy', but the epoch has only \[.*'mse'\]"):
        trainer_of(tmp_path, callbacks=[callback]).train(1, data())


# ---- once for each update


@pytest.mark.parametrize("given_as", ["callback class", "torch class", "callback", "positional"])
def test_one_cycle_steps_after_each_update(given_as, tmp_path):
    settings = {
        "callback class": {"lr_scheduler_cls": OneCycleLRCallbackPyTorch, "lr_scheduler_params": ONE_CYCLE},
        "torch class": {"lr_scheduler_cls": schedules.OneCycleLR, "lr_scheduler_params": ONE_CYCLE},
        "callback": {"callbacks": [OneCycleLRCallbackPyTorch("default", **ONE_CYCLE)]},
        "positional": {"callbacks": [OneCycleLRCallbackPyTorch("default", 0.3, ONE_CYCLE["total_steps"])]},
    }[given_as]
    expected = rates_by_hand(lambda optimizer: schedules.OneCycleLR(optimizer, **ONE_CYCLE), "iter")
    assert rates_of(tmp_path, **settings) == expected


@pytest.mark.parametrize("as_data", [list, Stream])
def test_a_schedule_of_updates_does_not_step_while_gradients_are_accumulated(as_data, tmp_path):
    params = {"max_lr": 0.3, "total_steps": N_EPOCHS * 2}  # three batches: two updates
    rates = rates_of(
        tmp_path,
        train=as_data(data()),
        gradient_accumulation_steps=2,
        lr_scheduler_cls=OneCycleLRCallbackPyTorch,
        lr_scheduler_params=params,
    )
    expected = rates_by_hand(lambda optimizer: schedules.OneCycleLR(optimizer, **params), "iter", every=2)
    assert rates == expected


@pytest.mark.parametrize("as_data", [list, Stream])
def test_a_schedule_of_updates_has_taken_a_step_for_each_when_the_training_ends(as_data, tmp_path):
    params = {"max_lr": 0.3, "total_steps": N_EPOCHS * 2 + 1}  # the first rate is one of them
    trainer = trainer_of(
        tmp_path,
        gradient_accumulation_steps=2,
        lr_scheduler_cls=OneCycleLRCallbackPyTorch,
        lr_scheduler_params=params,
    )
    trainer.train(N_EPOCHS, as_data(data()))
    assert schedule_of(trainer).last_epoch == trainer.optimizers["default"].num_updates == N_EPOCHS * 2


def test_a_schedule_of_updates_does_not_step_for_an_update_that_is_left_out(tmp_path):
    batches = data()
    batches[1]["label"][:] = np.inf
    params = {"step_size": 1, "gamma": 0.5, "step_on": "iter"}
    rates = rates_of(
        tmp_path,
        num_epochs=1,
        train=batches,
        nonfinite="skip",
        lr_scheduler_cls=schedules.StepLR,
        lr_scheduler_params=params,
    )
    assert rates == [0.1, 0.05, 0.05]


def test_a_schedule_of_updates_does_not_step_for_an_update_that_overflows_in_fp16(tmp_path):
    """It would also be stepped before the optimizer was, which torch warns of."""
    rates = Rates()
    trainer = trainer_of(
        tmp_path,
        callbacks=[rates],
        mixed_precision="fp16",
        lr_scheduler_cls=OneCycleLRCallbackPyTorch,
        lr_scheduler_params=ONE_CYCLE,
    )
    scaler = trainer.optimizers["default"].scaler
    scaler.load_state_dict(scaler.state_dict() | {"scale": 2.0**24})
    trainer.train(N_EPOCHS, data())
    updates = trainer.optimizers["default"].num_updates
    assert 0 < updates < N_EPOCHS * N_BATCHES
    assert schedule_of(trainer).last_epoch == updates


# ---- several optimizers


def test_each_optimizer_gets_a_schedule_of_its_own(tmp_path):
    trainer = trainer_of(
        tmp_path,
        Pair,
        optim_fn=create_optims_gan_default_pytorch,
        lr_scheduler_cls=StepLRCallbackPyTorch,
        lr_scheduler_params={"step_size": 1, "gamma": 0.5},
    )
    trainer.train(2, data())
    assert [record["lr_gen"] for record in trainer.state.history] == [0.1, 0.05]
    assert [record["lr_discr"] for record in trainer.state.history] == [0.1, 0.05]


def test_a_callback_names_the_optimizer_it_is_for_and_both_survive_a_restart(tmp_path):
    def trainer(name):
        callbacks = [StepLRCallbackPyTorch("gen", 1, 0.5), StepLRCallbackPyTorch("discr", 2, 0.1)]
        return trainer_of(tmp_path / name, Pair, optim_fn=create_optims_gan_default_pytorch, callbacks=callbacks)

    unbroken = trainer("unbroken")
    unbroken.train(4, data())
    trainer("broken").train(3, data())
    again = trainer("broken")
    again.train(4, data())
    assert again.state.history == unbroken.state.history
    assert [record["lr_gen"] for record in again.state.history] == [0.1, 0.05, 0.025, 0.0125]
    assert [record["lr_discr"] for record in again.state.history] == pytest.approx([0.1, 0.1, 0.01, 0.01])


# ---- restart


@pytest.mark.sampled("half")
@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    ("cls", "params"),
    [
        *((callback, params) for callback, _, params, _ in PER_EPOCH),
        *((torch_cls, params) for _, torch_cls, params, _ in PER_EPOCH),
        (ReduceLROnPlateauCallbackPyTorch, {"patience": 0, "factor": 0.5, "threshold": 0.5}),
        (OneCycleLRCallbackPyTorch, ONE_CYCLE),
        (schedules.CyclicLR, {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 4}),
        (schedules.CosineAnnealingWarmRestarts, {"T_0": 2, "T_mult": 2}),
        (schedules.PolynomialLR, {"total_iters": 5, "power": 2.0}),
    ],
)
@pytest.mark.parametrize("steps", [1, 2])
def test_a_schedule_continues_after_a_restart_as_if_it_had_not_been_broken_off(steps, cls, params, tmp_path):
    def trainer(name):
        return trainer_of(
            tmp_path / name,
            lr_scheduler_cls=cls,
            lr_scheduler_params=params,
            val_score_key="mse",
            gradient_accumulation_steps=steps,
        )

    train, val = Stream(data()), data(1, seed=1)
    unbroken = trainer("unbroken")
    unbroken.train(N_EPOCHS, train, val)
    first = trainer("broken")
    first.train(2, train, val)
    again = trainer("broken")
    assert plain(schedule_of(again).state_dict()) == plain(schedule_of(first).state_dict())
    again.train(N_EPOCHS, train, val)
    assert plain(schedule_of(again).state_dict()) == plain(schedule_of(unbroken).state_dict())
    assert again.state.history == unbroken.state.history
    assert torch.equal(again.network.linear.weight, unbroken.network.linear.weight)


def plain(state):
    """A schedule's state with the types in it; functions come from the class."""
    return {name: (type(value), value) for name, value in state.items() if not callable(value)}


# ---- what is refused


def test_a_schedule_of_an_absent_optimizer_says_which_there_are(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no optimizer 'gen'; there are \['default'\]"):
        trainer_of(tmp_path, callbacks=[StepLRCallbackPyTorch("gen", 1)])


@pytest.mark.parametrize("make", [TorchSchedulerCallback, DefaultPyTorchSchedulerCallback])
def test_a_generic_schedule_needs_a_class(make):
    with pytest.raises(ConfigError, match=r"needs scheduler_cls, e\.g\. torch\.optim\.lr_scheduler\.StepLR"):
        make("default")


def test_a_schedule_is_stepped_on_epochs_or_iterations_and_nothing_else():
    with pytest.raises(ConfigError, match="step_on must be 'epoch' or 'iter', got 'batch'"):
        TorchSchedulerCallback("default", schedules.StepLR, step_on="batch", step_size=1)


def test_too_many_positional_arguments_are_refused():
    with pytest.raises(ConfigError, match="StepLRCallbackPyTorch takes at most 3 positional arguments"):
        StepLRCallbackPyTorch("default", 1, 0.5, -1, True)
    with pytest.raises(ConfigError, match="ReduceLROnPlateauCallbackPyTorch takes at most 9 positional arguments"):
        ReduceLROnPlateauCallbackPyTorch("default", "min", 0.1, 10, False, 1e-4, "rel", 0, 0, 1e-8, "more")


def test_a_schedule_that_a_backend_does_not_have_is_refused(tmp_path):
    from delira.testing import ToyNetwork, ToyTrainer, mean_squared_error

    with pytest.raises(
        ConfigError, match="the backend 'toy' has no learning-rate schedules; leave lr_scheduler_cls out"
    ):
        ToyTrainer(ToyNetwork(), tmp_path, losses={"mse": mean_squared_error}, lr_scheduler_cls=schedules.StepLR)


def test_infinite_scores_do_not_break_the_state_of_plateau(tmp_path):
    """Its best score is infinite until it has seen one; that must survive a file."""
    callback = ReduceLROnPlateauCallbackPyTorch("default", monitor="mse")
    trainer = trainer_of(tmp_path, callbacks=[callback])
    path = trainer.save_state(tmp_path / "fresh")
    trainer.update_state(path)
    assert callback.scheduler.best == math.inf
