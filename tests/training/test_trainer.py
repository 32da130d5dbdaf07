"""The training loop, in every backend: what one call of ``train`` does to weights, values and generators."""

import random

import numpy as np
import pytest
from small_backends import checkpoint_names

from delira.contract import StepHooks
from delira.data_loading import BaseDataManager, RandomSampler, SequentialSampler
from delira.data_loading.dataset import AbstractDataset
from delira.errors import ConfigError, DataError, MissingKeyError, NetworkError, NonFiniteLossError
from delira.training.callbacks import AbstractCallback

START = np.linspace(-0.5, 0.5, 3).reshape(-1, 1)


def mse(y_true, y_pred):
    return float(np.mean((y_true - y_pred) ** 2))


def rmse(y_true, y_pred):
    """A metric whose mean over batches is not its value over all samples."""
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def descend(batches, weight=START, lr=0.1, momentum=0.5, velocity=0.0):
    """Gradient descent by hand: the last weight, and loss and length of every batch."""
    losses, sizes, predictions = [], [], []
    for batch in batches:
        pred = batch["data"] @ weight
        predictions.append(pred)
        losses.append(np.mean((pred - batch["label"]) ** 2))
        sizes.append(len(pred))
        velocity = momentum * velocity + 2 * batch["data"].T @ (pred - batch["label"]) / len(pred)
        weight = weight - lr * velocity
    return weight, losses, sizes, np.concatenate(predictions)


def epochs(data, *numbers, seed=0, fold=0):
    """The training batches of some epochs, in the order the trainer takes them."""
    return [batch for number in numbers for batch in data.epoch(seed, fold, number, shuffle=True)]


class Spoil:
    """Makes the labels of one step infinite or not a number."""

    def __init__(self, epoch, step, value=np.nan):
        self.epoch, self.step, self.value = epoch, step, value

    def at_iter_begin(self, trainer, *, data_dict, curr_epoch, iter_num, **facts):
        if (curr_epoch, iter_num) == (self.epoch, self.step):
            data_dict["label"][...] = self.value


# ---- what is learned


def test_training_lowers_the_loss(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path)
    trainer.train(8, manager(20))
    losses = [record["mse"] for record in trainer.state.history]
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize("n_epochs", [1, 3])
def test_training_is_gradient_descent_by_hand(kit, tmp_path, manager, n_epochs):
    data = manager()
    trainer = kit.trainer(tmp_path, seed=5, fold=2)
    network = trainer.train(n_epochs, data)
    weight, *_ = descend(epochs(data, *range(1, n_epochs + 1), seed=5, fold=2))
    np.testing.assert_allclose(kit.read(network), weight, rtol=kit.rtol)


def test_the_loss_of_an_epoch_counts_every_sample_once(kit, tmp_path, manager):
    data = manager(9)
    trainer = kit.trainer(tmp_path)
    trainer.train(2, data)
    _, losses, sizes, _ = descend(epochs(data, 1))
    assert sizes == [4, 4, 1]
    assert trainer.state.history[0]["mse"] == pytest.approx(np.average(losses, weights=sizes), rel=kit.rtol)
    assert trainer.state.history[0]["mse"] != pytest.approx(np.mean(losses), rel=kit.rtol)


@pytest.mark.parametrize(
    ("mode", "by_hand"),
    [("sum", np.sum), ("first_only", lambda steps: steps[0]), ("last_only", lambda steps: steps[-1])],
)
def test_reduce_mode_says_how_steps_become_an_epoch(kit, tmp_path, manager, mode, by_hand):
    data = manager()
    trainer = kit.trainer(tmp_path)
    trainer.train(1, data, reduce_mode=mode)
    _, losses, *_ = descend(epochs(data, 1))
    assert trainer.state.history[0]["mse"] == pytest.approx(by_hand(losses), rel=kit.rtol)


def test_train_metrics_are_called_in_the_closure_and_averaged_by_samples(kit, tmp_path, manager):
    data = manager()
    trainer = kit.trainer(tmp_path, train_metrics={"power": lambda y_true, y_pred: kit.loss(y_pred, 0 * y_true)})
    trainer.train(1, data)
    *_, predictions = descend(epochs(data, 1))
    assert trainer.state.history[0]["power"] == pytest.approx((predictions**2).mean(), rel=10 * kit.rtol)


def test_metrics_are_exact_over_the_training_epoch_and_over_the_validation(kit, tmp_path, manager):
    data, held_out = manager(), manager(7, batch_size=3, seed=1)
    trainer = kit.trainer(tmp_path, metrics={"rmse": rmse})
    network = trainer.train(1, data, held_out)
    *_, predictions = descend(epochs(data, 1))
    labels = np.concatenate([batch["label"] for batch in epochs(data, 1)])
    assert trainer.state.history[0]["rmse"] == pytest.approx(rmse(labels, predictions), rel=kit.rtol)
    arrays = held_out.dataset.data
    expected = rmse(arrays["label"], arrays["data"] @ kit.read(network))
    assert trainer.state.history[0]["val_rmse"] == pytest.approx(expected, rel=kit.rtol)


def test_validation_metrics_are_those_of_all_samples_and_no_mean_of_batches(kit, tmp_path, manager):
    held_out = manager(7, batch_size=3, seed=1)
    trainer = kit.trainer(tmp_path, val_metrics={"rmse": rmse})
    network = trainer.train(2, manager(), held_out)
    arrays, weight = held_out.dataset.data, kit.read(network)
    whole = rmse(arrays["label"], arrays["data"] @ weight)
    of_batches = np.mean([rmse(batch["label"], batch["data"] @ weight) for batch in held_out])
    assert trainer.state.history[-1]["val_rmse"] == pytest.approx(whole, rel=kit.rtol)
    assert whole != pytest.approx(of_batches, rel=1e-3)


def test_a_metric_of_single_samples_enters_the_history_as_its_mean(kit, tmp_path, manager):
    def distance(y_true, y_pred):
        return float(np.abs(y_true - y_pred).max())

    distance.over = "sample"
    held_out = manager(7, batch_size=3, seed=1)
    trainer = kit.trainer(tmp_path, val_metrics={"distance": distance})
    network = trainer.train(1, manager(), held_out)
    arrays = held_out.dataset.data
    expected = np.abs(arrays["label"] - arrays["data"] @ kit.read(network)).mean()
    assert trainer.state.history[0]["val_distance"] == pytest.approx(expected, rel=kit.rtol)


def test_validation_losses_are_there_with_the_default_closure(kit, tmp_path, manager):
    held_out = manager(7, batch_size=3, seed=1)
    trainer = kit.trainer(tmp_path)
    network = trainer.train(1, manager(), held_out)
    arrays = held_out.dataset.data
    expected = mse(arrays["label"], arrays["data"] @ kit.read(network))
    assert trainer.state.history[0]["val_mse"] == pytest.approx(expected, rel=kit.rtol)


def test_validation_losses_are_absent_with_a_closure_written_by_hand(kit, tmp_path, manager):
    class Net(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses):
            loss, pred = kit.step(model, data_dict, optimizers, losses)
            return {}, {"mse": loss}, {"pred": pred}

    trainer = kit.trainer(tmp_path, kit.build(cls=Net), val_metrics={"rmse": rmse})
    trainer.train(1, manager(), manager(7, seed=1))
    assert trainer.state.history[0].keys() == {"epoch", "mse", "val_rmse", "lr"}


def test_val_freq_says_which_epochs_are_validated(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, val_freq=2)
    trainer.train(5, manager(), manager(7))
    assert [record["epoch"] for record in trainer.state.history if "val_mse" in record] == [2, 4]


def test_the_history_names_epoch_and_learning_rate(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, **kit.halving())
    trainer.train(3, manager())
    assert [record["epoch"] for record in trainer.state.history] == [1, 2, 3]
    assert [record["lr"] for record in trainer.state.history] == pytest.approx([0.1, 0.05, 0.025])


def test_the_counters_count_what_is_finished(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path)
    trainer.train(2, manager())
    assert (trainer.state.epoch, trainer.state.step_in_epoch, trainer.state.global_step) == (2, 0, 6)


def test_a_manager_whose_sampler_is_named_keeps_its_order(kit, tmp_path, manager):
    data = manager(sampler_cls=SequentialSampler)
    network = kit.trainer(tmp_path / "named").train(1, data)
    np.testing.assert_allclose(kit.read(network), descend(list(manager()))[0], rtol=kit.rtol)
    drawn = manager(sampler_cls=RandomSampler, sampler_kwargs={"replacement": True})
    network = kit.trainer(tmp_path / "drawn").train(1, drawn)
    np.testing.assert_allclose(kit.read(network), descend(list(drawn.epoch(0, 0, 1)))[0], rtol=kit.rtol)


def test_the_network_learns_while_it_trains_and_not_while_it_validates(kit, tmp_path, manager):
    seen = []

    class Net(kit.network):
        def __call__(self, *args, **kwargs):
            seen.append(kit.learns(self))
            return super().__call__(*args, **kwargs)

    network = kit.build(cls=Net)
    trainer = kit.trainer(tmp_path, network, val_metrics={"rmse": rmse}, compiled=False)
    trainer.train(1, manager(), manager(7))
    assert seen[-5:] == [True, True, True, False, False]


def test_key_mapping_loss_keys_and_metric_keys_name_what_is_read(kit, tmp_path, regression):
    arrays = regression()
    renamed = BaseDataManager({"image": arrays["data"], "target": arrays["label"]}, 4)
    settings = {
        "key_mapping": {"x": "image"},
        "loss_keys": {"mse": ("pred", "target")},
        "metric_keys": {"rmse": ("target", "pred")},
        "val_metrics": {"rmse": rmse},
    }
    trainer = kit.trainer(tmp_path / "renamed", **settings)
    network = trainer.train(2, renamed, renamed)
    plain = BaseDataManager(arrays, 4)
    as_usual = kit.trainer(tmp_path / "plain", val_metrics={"rmse": rmse})
    assert kit.same(kit.read(network), kit.read(as_usual.train(2, plain, plain)))
    assert trainer.state.history == as_usual.state.history


# ---- one seed


class NoisyDataset(AbstractDataset):
    """Draws from both global generators whenever a sample is read."""

    def __init__(self, arrays):
        super().__init__()
        self.data = arrays["data"]
        self.label = arrays["label"]

    def __getitem__(self, index):
        noise = np.random.normal(scale=0.01) + 0.01 * random.random()
        return {"data": self.data[index] + noise, "label": self.label[index]}


class NoisyStart(AbstractCallback):
    """Draws from the global generators in every epoch, as users' callbacks do."""

    def at_epoch_begin(self, trainer, **facts):
        trainer.noise = [*getattr(trainer, "noise", []), np.random.random(), random.random()]


def noisy_run(kit, path, arrays, network=None, **settings):
    data = BaseDataManager(NoisyDataset(arrays), 4)
    trainer = kit.trainer(path, network or kit.build(dropout=0.5), callbacks=[NoisyStart()], **settings)
    network = trainer.train(2, data, data)
    return kit.read(network), trainer.state.history, trainer.noise[2:]


def test_training_leaves_the_callers_generators_as_they_were(kit, tmp_path, regression):
    network = kit.build(dropout=0.5)
    with kit.undisturbed():
        noisy_run(kit, tmp_path, regression(), network)


def test_a_failed_training_leaves_the_callers_generators_as_they_were(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, kit.build(dropout=0.5), callbacks=[Spoil(1, 1)])
    with kit.undisturbed(), pytest.raises(NonFiniteLossError, match="epoch 1"):
        trainer.train(2, manager())


def test_runs_of_one_seed_are_equal_bit_for_bit_whatever_the_global_state(kit, tmp_path, regression):
    first = noisy_run(kit, tmp_path / "first", regression(), seed=3)
    np.random.seed(99)
    random.seed(99)
    kit.backend.generators.seed(99)
    assert kit.same(first, noisy_run(kit, tmp_path / "second", regression(), seed=3))


@pytest.mark.parametrize("other", [{"seed": 4}, {"fold": 1}])
def test_another_seed_or_fold_gives_another_run(kit, tmp_path, regression, other):
    first = noisy_run(kit, tmp_path / "first", regression(), seed=3)
    second = noisy_run(kit, tmp_path / "second", regression(), **{"seed": 3, **other})
    assert not kit.same(first[0], second[0])


@pytest.mark.parametrize("other", [{"seed": 4}, {"fold": 1}])
def test_seed_and_fold_decide_the_order_and_what_is_dropped(kit, tmp_path, manager, other):
    def weight(name, dropout, **settings):
        trainer = kit.trainer(tmp_path / name, kit.build(dropout=dropout), **settings)
        return kit.read(trainer.train(1, manager(sampler_cls=SequentialSampler) if dropout else manager()))

    assert not kit.same(weight("order", 0.0), weight("other order", 0.0, **other))
    assert not kit.same(weight("drop", 0.5), weight("other drop", 0.5, **other))


def test_the_epochs_of_a_run_differ_in_order_and_in_what_is_dropped(kit, tmp_path, manager):
    dropped = []

    class Net(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses):
            dropped.append(np.asarray(data_dict["number"]).tolist())
            return {}, {"mse": kit.step(model, data_dict, optimizers, losses)[0]}, {}

    kit.trainer(tmp_path, kit.build(cls=Net), compiled=False).train(2, manager(10, batch_size=10))
    assert dropped[0] != dropped[1]
    assert sorted(dropped[0]) == sorted(dropped[1]) == list(range(10))


def test_the_fold_may_be_set_after_construction(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path / "set")
    trainer.fold = 2
    trainer.train(1, manager(), manager(7), "mse")
    trainer.train(2, manager(), manager(7), "mse")
    other = kit.trainer(tmp_path / "given", fold=2)
    other.train(2, manager(), manager(7), "mse")
    assert trainer.state.history == other.state.history
    assert kit.trainer(tmp_path / "set", fold=2).state.epoch == 2
    with pytest.raises(ConfigError, match=r"fold must be an integer.*, got 'two'"):
        trainer.fold = "two"


# ---- losses that are not finite


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("log_freq", [1, 50])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_nonfinite_loss_names_epoch_first_bad_step_and_loss(kit, tmp_path, manager, value, log_freq):
    trainer = kit.trainer(tmp_path, callbacks=[Spoil(2, 1, value)], log_freq=log_freq, save_freq=1)
    with pytest.raises(NonFiniteLossError, match=rf"loss 'mse' became {value} in epoch 2, step 2 of the epoch"):
        trainer.train(4, manager())
    assert checkpoint_names(trainer) == ["epoch_1", "last"]
    assert len(trainer.state.history) == 1


def test_log_freq_says_how_soon_a_nonfinite_loss_is_noticed(kit, tmp_path, manager):
    for log_freq, steps in ((1, 1), (2, 2), (50, 3)):
        trainer = kit.trainer(tmp_path / str(log_freq), callbacks=[Spoil(1, 0)], log_freq=log_freq)
        with pytest.raises(NonFiniteLossError, match="epoch 1, step 1 of the epoch"):
            trainer.train(1, manager())
        assert trainer.state.step_in_epoch == steps


def test_nonfinite_losses_can_be_ignored(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, callbacks=[Spoil(1, 1)], nonfinite="ignore")
    trainer.train(2, manager(), manager(7), "mse")
    assert [np.isnan(record["mse"]) for record in trainer.state.history] == [True, True]
    assert trainer.state.best_score is None  # not a number is never the best


# ---- closures


@pytest.mark.parametrize("form", ["three", "two", "list"])
def test_a_closure_returns_metrics_losses_and_predictions_or_the_last_two(kit, tmp_path, manager, form):
    class Net(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
            loss, pred = kit.step(model, data_dict, optimizers, losses)
            if form == "three":
                return {"one": 1.0}, {"mse": loss}, {"pred": pred}
            return {"mse": loss}, [pred] if form == "list" else {"pred": pred}

    data = manager()
    trainer = kit.trainer(tmp_path, kit.build(cls=Net), metrics={"rmse": rmse})
    network = trainer.train(2, data)
    np.testing.assert_allclose(kit.read(network), descend(epochs(data, 1, 2))[0], rtol=kit.rtol)
    assert trainer.state.history[0].keys() == {"epoch", "mse", "rmse", "lr"} | ({"one"} if form == "three" else set())


def test_several_listed_predictions_are_numbered(kit, tmp_path, manager):
    class Net(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses):
            loss, pred = kit.step(model, data_dict, optimizers, losses)
            return {"mse": loss}, [pred, -pred]

    trainer = kit.trainer(
        tmp_path, kit.build(cls=Net), metrics={"sum": rmse}, metric_keys={"sum": ("pred_0", "pred_1")}
    )
    trainer.train(1, manager())
    assert trainer.state.history[0]["sum"] > 0


def test_a_closure_gets_only_what_its_signature_names(kit, tmp_path, manager):
    seen = []

    class Net(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses, fold, temperature, iter_num, global_iter_num):
            seen.append((fold, temperature, iter_num, global_iter_num))
            loss, pred = kit.step(model, data_dict, optimizers, losses)
            return {"mse": loss}, {"pred": pred}

    settings = {"fold": 3, "extra": {"temperature": 0.5, "unused": 1}, "compiled": False}
    kit.trainer(tmp_path, kit.build(cls=Net), **settings).train(2, manager())
    assert seen == [(3, 0.5, step % 3, step) for step in range(6)]


def test_a_closure_with_keywords_gets_everything(kit, tmp_path, manager):
    seen = []

    class Net(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
            seen.append(kwargs)
            loss, pred = kit.step(model, data_dict, optimizers, losses)
            return {"mse": loss}, {"pred": pred}

    kit.trainer(tmp_path, kit.build(cls=Net), extra={"temperature": 0.5}, compiled=False).train(1, manager())
    assert seen[0] == {
        "temperature": 0.5, "key_mapping": {"x": "data"}, "loss_keys": {}, "metric_keys": {},
        "hooks": StepHooks(), "iter_num": 0, "global_iter_num": 0, "batch_nr": 0,
    }  # fmt: skip


def test_the_optimizers_and_functions_reach_a_closure_by_name(kit, tmp_path, manager):
    seen = []

    class Net(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses, metrics):
            seen.append((list(optimizers), list(losses), list(metrics)))
            loss, pred = kit.step(model, data_dict, optimizers, losses)
            return {name: metric(loss, loss) for name, metric in metrics.items()}, {"mse": loss}, {"pred": pred}

    trainer = kit.trainer(tmp_path, kit.build(cls=Net), train_metrics={"zero": lambda a, b: a - b})
    trainer.train(1, manager())
    assert seen[0] == (["default"], ["mse"], ["zero"])
    assert trainer.state.history[0]["zero"] == 0


def test_a_training_metric_may_be_any_kind_of_single_number(kit, tmp_path, manager):
    kinds = {"python": 1, "numpy": np.float32(1), "no axis": np.ones(()), "one axis": np.ones(1), "flag": True}

    class Net(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses):
            loss, pred = kit.step(model, data_dict, optimizers, losses)
            return {**kinds, "own": 0 * loss + 1}, {"mse": loss}, {"pred": pred}

    trainer = kit.trainer(tmp_path, kit.build(cls=Net))
    trainer.train(1, manager())
    assert [trainer.state.history[0][name] for name in (*kinds, "own")] == [1.0] * 6


@pytest.mark.parametrize("where", ["losses", "metrics"])
def test_a_loss_or_training_metric_is_a_single_number(kit, tmp_path, manager, where):
    class Net(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses):
            loss, pred = kit.step(model, data_dict, optimizers, losses)
            return {"m": pred if where == "metrics" else 0.5}, {"mse": pred if where == "losses" else loss}, {}

    with pytest.raises(NetworkError, match=r"a loss or training metric has the shape \(4, 1\)"):
        kit.trainer(tmp_path, kit.build(cls=Net)).train(1, manager())


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "closure returned a NoneType; it returns"),
        (({}, {}, {}, {}), "closure returned a tuple of 4"),
        (({}, 0.5, {}), "closure returned a float for losses; it must be a dict by name"),
        (({"mse": 0.5}, 0.5), "closure returned a float for predictions"),
    ],
)
def test_a_closure_that_returns_anything_else_is_told_what_to_return(kit, tmp_path, manager, returned, message):
    class Net(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers):
            return returned

    with pytest.raises(NetworkError, match=message):
        kit.trainer(tmp_path, kit.build(cls=Net)).train(1, manager())


def test_hooks_run_inside_the_default_closure_at_four_places(kit, tmp_path, manager):
    seen = []

    def note(place):
        def hook(step):
            done = (step.predictions is not None, bool(step.losses))
            seen.append((place, done, kit.read(step.network).tolist()))

        return hook

    trainer = kit.trainer(tmp_path)
    places = ("sample", "forward", "criterion", "backward")
    trainer.hooks = StepHooks(**{place: (note(place),) for place in places})
    trainer.train(1, manager(4))
    assert [(place, done) for place, done, _ in seen] == [
        ("sample", (False, False)),
        ("forward", (True, False)),
        ("criterion", (True, True)),
        ("backward", (True, True)),
    ]
    assert all(weight == seen[0][2] for *_, weight in seen)  # the update comes after all of them


def test_a_hook_can_change_the_batch(kit, tmp_path, manager, regression):
    def no_label(step):
        step.batch["label"] = 0 * step.batch["label"]

    trainer = kit.trainer(tmp_path)
    trainer.hooks = StepHooks(sample=(no_label,))
    data = manager()
    network = trainer.train(1, data)
    zeros = [{**batch, "label": 0 * batch["label"]} for batch in epochs(data, 1)]
    np.testing.assert_allclose(kit.read(network), descend(zeros)[0], rtol=kit.rtol)


def test_a_hook_can_change_and_add_losses(kit, tmp_path, manager):
    def weighted(step):
        step.losses = {"mse": 2 * step.losses["mse"], "decay": 0 * step.losses["mse"] + 3.0}

    trainer = kit.trainer(tmp_path)
    trainer.hooks = StepHooks(criterion=(weighted,))
    data = manager()
    trainer.train(1, data)
    _, losses, sizes, _ = descend(epochs(data, 1), lr=0.1 if kit.name == "toy" else 0.2)  # the toy backend's is fixed
    assert trainer.state.history[0]["mse"] == pytest.approx(2 * np.average(losses, weights=sizes), rel=kit.rtol)
    assert trainer.state.history[0]["decay"] == pytest.approx(3)


def test_hooks_set_between_two_trainings_run_in_the_second(kit, tmp_path, manager):
    seen = []
    trainer = kit.trainer(tmp_path)
    trainer.train(1, manager())
    trainer.hooks = StepHooks(sample=(seen.append,))
    trainer.train(2, manager())
    assert len(seen) == 3


# ---- data that are no manager


def test_a_list_of_batches_can_be_trained_on(kit, tmp_path, manager):
    batches = list(manager())
    trainer = kit.trainer(tmp_path, val_metrics={"rmse": rmse})
    network = trainer.train(2, batches, batches)
    np.testing.assert_allclose(kit.read(network), descend([*batches, *batches])[0], rtol=kit.rtol)
    pred = [batch["data"] @ kit.read(network) for batch in batches]
    expected = rmse(np.concatenate([batch["label"] for batch in batches]), np.concatenate(pred))
    assert trainer.state.history[-1]["val_rmse"] == pytest.approx(expected, rel=kit.rtol)


def test_an_iterable_without_a_length_can_be_trained_on(kit, tmp_path, manager):
    class Stream:
        def __iter__(self):
            return iter(list(manager()))

    network = kit.trainer(tmp_path).train(2, Stream())
    np.testing.assert_allclose(kit.read(network), descend([*manager(), *manager()])[0], rtol=kit.rtol)


def test_an_iterator_that_is_used_up_is_named_in_the_epoch_that_gets_nothing(kit, tmp_path, manager):
    with pytest.raises(DataError, match="the training data gave no batch in epoch 2"):
        kit.trainer(tmp_path).train(2, iter(list(manager())))


@pytest.mark.parametrize(
    ("metrics", "message"),
    [({}, "the validation data gave no batch in epoch 2"), ({"rmse": rmse}, "the data set is empty")],
)
def test_validation_data_that_are_used_up_are_named_too(kit, tmp_path, manager, metrics, message):
    with pytest.raises(DataError, match=message):
        kit.trainer(tmp_path, val_metrics=metrics).train(3, manager(), iter(list(manager())))


def test_what_gives_no_batches_is_refused_before_the_first_step(kit, tmp_path, regression, manager):
    trainer = kit.trainer(tmp_path)
    with pytest.raises(DataError, match="the training data is a dict; pass a BaseDataManager"):
        trainer.train(1, regression())
    with pytest.raises(DataError, match="the validation data is a int; pass a BaseDataManager"):
        trainer.train(1, manager(), 3)
    with pytest.raises(DataError, match="a batch must be a dict of arrays with the samples first, got ndarray"):
        trainer.train(1, [np.zeros((2, 3))])


# ---- refused before the first step


class Forbidden(AbstractCallback):
    def at_iter_begin(self, trainer, **facts):
        raise AssertionError("a step was done")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"key_mapping": {"x": "image"}}, r"reads 'image', but the batch has only \['data', 'label', 'number'\]"),
        ({"loss_keys": {"mse": ("pred", "mask")}}, "loss 'mse' reads 'mask', but there are only"),
        ({"loss_keys": {"mse": ("logits", "label")}}, "loss 'mse' reads 'logits', but there are only"),
        (
            {"train_metrics": {"m": rmse}, "metric_keys": {"m": ("mask", "pred")}},
            "metric 'm' reads 'mask', but there are only",
        ),
        ({"val_metrics": {"m": rmse}, "metric_keys": {"m": ("label", "logits")}}, "metric 'm' reads 'logits'"),
    ],
)
def test_an_entry_that_will_be_missed_is_named_before_the_first_step(kit, tmp_path, manager, settings, message):
    trainer = kit.trainer(tmp_path, callbacks=[Forbidden()], **settings)
    with pytest.raises(MissingKeyError, match=message):
        trainer.train(1, manager(), manager())


def test_a_network_that_returns_no_dict_is_refused_before_the_first_step(kit, tmp_path, manager):
    class Net(kit.network):
        def __call__(self, x):
            return x

    with pytest.raises(NetworkError, match=r"Net returned a .*; a network returns a dict of named outputs"):
        kit.trainer(tmp_path, kit.build(cls=Net), callbacks=[Forbidden()]).train(1, manager())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimiser_params": {}}, "unknown training setting 'optimiser_params'; did you mean 'optimizer_params'"),
        ({"optimiser_params": {}, "sead": 1}, r"'optimiser_params'.*\n.*'sead'"),
        (
            {"val_score_mode": "big"},
            "val_score_mode must be one of 'auto', 'min', 'lowest', 'max', 'highest', got 'big'",
        ),
        ({"val_score_key": "acuracy", "val_metrics": {"accuracy": mse}}, "did you mean 'accuracy'"),
        ({"reduce_mode": "median"}, "reduce_mode must be one of"),
        ({"nonfinite": "explode"}, "nonfinite must be 'raise', 'skip', 'rollback' or 'ignore', got 'explode'"),
        ({"val_freq": 0}, "val_freq must be an integer of at least 1"),
        ({"save_freq": 0}, "save_freq must be an integer of at least 1"),
        ({"log_freq": 0.5}, "log_freq must be an integer of at least 1"),
        ({"seed": -1}, "seed must be a non-negative integer, got -1"),
        ({"losses": {"mse": 3}}, r"losses\['mse'\] is a int, which cannot be called"),
        ({"losses": [mse]}, "losses must be a dict with names as keys, got list"),
        ({"val_metrics": {"mse": mse}}, r"\['mse'\] names both a loss and a metric"),
        ({"metric_keys": {"rmse": ("label", "pred")}}, "metric_keys names 'rmse', which does not exist"),
        ({"losses": {}}, "losses is empty; pass losses="),
        ({"device": "abacus"}, "abacus"),
        ({"logging_type": "visdm"}, "logging_type must be one of 'tensorboardx', 'visdom'.*; did you mean 'visdom'"),
    ],
)
def test_impossible_settings_are_refused_at_construction(kit, tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        kit.trainer(tmp_path, **settings)


def test_what_is_no_network_is_refused_at_construction(kit, tmp_path):
    with pytest.raises(NetworkError, match="int has no closure; subclass "):
        kit.trainer(tmp_path, 3)


def test_a_save_path_that_is_a_file_is_refused_at_construction(kit, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot be a folder: .* is a file; choose another path"):
        kit.trainer(tmp_path / "file" / "run")


@pytest.mark.parametrize("number", [-1, 1.5, True, "3"])
def test_num_epochs_must_be_a_number_of_epochs(kit, tmp_path, manager, number):
    with pytest.raises(ConfigError, match="num_epochs must be an integer of at least 0"):
        kit.trainer(tmp_path).train(number, manager())


def test_integers_of_numpy_are_integers(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, val_freq=np.int64(2), save_freq=np.int32(2), log_freq=np.int64(1))
    trainer.train(np.int64(2), manager(), manager(7))
    assert [record["epoch"] for record in trainer.state.history if "val_mse" in record] == [2]
    assert kit.trainer(tmp_path).state.epoch == 2


def test_criterions_and_positional_losses_are_the_historic_spellings(kit, tmp_path, manager):
    settings = {name: value for name, value in kit.settings.items() if name != "losses"}
    with pytest.warns(DeprecationWarning, match="'criterions' is now called 'losses'"):
        first = kit.trainer_cls(kit.build(), tmp_path / "a", criterions={"mse": kit.loss}, **settings)
    with pytest.warns(DeprecationWarning, match="the third argument is key_mapping; pass losses by name"):
        second = kit.trainer_cls(kit.build(), tmp_path / "b", {"mse": kit.loss}, **settings)
    assert kit.same(kit.read(first.train(1, manager())), kit.read(second.train(1, manager())))


def test_settings_of_the_constructor_are_shown_by_help(kit):
    import inspect

    names = inspect.signature(kit.trainer_cls).parameters
    assert {"network", "save_path", "key_mapping", "losses", "optimizer_cls", "val_score_key", "fold"} <= names.keys()
