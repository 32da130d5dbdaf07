"""The exponential moving average of the weights: what it is, who sees it, and that it survives everything."""

import numpy as np
import pytest
from bare_parts import Parts

from delira.errors import ConfigError
from delira.training.callbacks import ExponentialMovingAverage
from delira.training.evaluation import RENEWED, caveats_of_averages

START = np.linspace(-0.5, 0.5, 3).reshape(-1, 1)


class Broken(BaseException):
    """The process ends here."""


class Watch:
    """The trained weights after every step; ends the process at one."""

    def __init__(self, kit, stop=None):
        self.kit, self.stop, self.weights = kit, stop, []

    def at_iter_end(self, trainer, *, global_iter_num, **facts):
        self.weights.append(self.kit.read(trainer.module).astype(np.float64))
        if global_iter_num + 1 == self.stop:
            self.stop = None
            raise Broken


def by_hand(weights, decay, warmup, start=START):
    """The average after each of the weights."""
    average, averages = start, []
    for n, weight in enumerate(weights, 1):
        now = min(decay, (1 + n) / (10 + n)) if warmup else decay
        average = now * average + (1 - now) * weight
        averages.append(average)
    return averages


def model_of(kit, trainer, name, key="model"):
    return kit.weight_in(trainer.load_state(trainer.checkpoints.path(name))[key])


def close(kit, found, expected):
    np.testing.assert_allclose(found, expected, rtol=max(kit.rtol, 1e-10))


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("decay", [0.0, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("warmup", [False, True])
def test_it_is_the_formula(kit, tmp_path, manager, decay, warmup):
    watch = Watch(kit)
    average = ExponentialMovingAverage(decay, warmup=warmup)
    trainer = kit.trainer(tmp_path, callbacks=[watch, average])
    trainer.train(4, manager())
    assert average.n_updates == len(watch.weights) == 12
    expected = by_hand(watch.weights, decay, warmup)[-1]
    close(kit, kit.read(trainer.module), expected)  # what train gives back
    close(kit, model_of(kit, trainer, "last"), expected)
    close(kit, model_of(kit, trainer, "last", "training_model"), watch.weights[-1])


def test_the_order_of_the_callbacks_does_not_matter(kit, tmp_path, manager):
    results = []
    for order in (1, -1):
        watch = Watch(kit)
        trainer = kit.trainer(tmp_path / str(order), callbacks=[watch, ExponentialMovingAverage(0.5)][::order])
        trainer.train(2, manager())
        results.append(kit.read(trainer.module))
    assert np.array_equal(*results)


def test_validation_sees_the_average_and_training_goes_on_with_the_weights(kit, tmp_path, manager):
    plain = Watch(kit)
    kit.trainer(tmp_path / "plain", kit.build(dropout=0.5), callbacks=[plain]).train(3, manager(), manager(7))
    watch, seen = Watch(kit), []

    class Score:
        """Looks at the network while it is validated."""

        def __call__(self, y_true, y_pred):
            if hasattr(self, "trainer"):
                seen.append(kit.read(self.trainer.module))
            return 0.0

        def __deepcopy__(self, memo):
            return Score()  # a try before the first step

    score = Score()
    trainer = kit.trainer(
        tmp_path / "average", kit.build(dropout=0.5), callbacks=[watch, ExponentialMovingAverage(0.5)],
        val_metrics={"score": score},
    )  # fmt: skip
    score.trainer = trainer
    trainer.train(3, manager(), manager(7))
    assert np.array_equal(watch.weights, plain.weights), "the average changed the training"
    averages = by_hand(watch.weights, 0.5, True)
    assert len(seen) == 3
    for found, expected in zip(seen, averages[2::3], strict=True):
        close(kit, found, expected)


def test_the_loss_of_the_validation_is_that_of_the_average(kit, tmp_path, manager):
    watch, data = Watch(kit), manager(7)
    trainer = kit.trainer(tmp_path, callbacks=[watch, ExponentialMovingAverage(0.8, warmup=False)])
    trainer.train(3, manager(), data)
    (whole,) = manager(7, 7)
    for record, average in zip(trainer.state.history, by_hand(watch.weights, 0.8, False)[2::3], strict=True):
        expected = np.mean((whole["data"] @ average - whole["label"]) ** 2)
        assert record["val_mse"] == pytest.approx(expected, rel=1e-4)


def test_best_last_and_numbered_checkpoints_have_the_average_and_the_weights(kit, tmp_path, manager):
    watch = Watch(kit)
    trainer = kit.trainer(
        tmp_path, callbacks=[watch, ExponentialMovingAverage(0.5)], save_freq=1, save_freq_steps=2,
        val_metrics={"first": lambda y_true, y_pred: float(trainer.state.epoch)}, val_score_key="first",
        val_score_mode="min",
    )  # fmt: skip
    trainer.train(3, manager(), manager(7))
    averages = by_hand(watch.weights, 0.5, True)
    for name, step in (("best", 3), ("epoch_1", 3), ("epoch_0_step_2", 2), ("epoch_1_step_3", 6), ("last", 9)):
        close(kit, model_of(kit, trainer, name), averages[step - 1])
        close(kit, model_of(kit, trainer, name, "training_model"), watch.weights[step - 1])
    close(kit, kit.read(trainer.module), averages[2])  # the best ones


def test_plain_torch_loads_the_average(tmp_path, manager):
    torch = pytest.importorskip("torch")
    from small_backends import torch_kit

    kit, watch = torch_kit(), Watch(torch_kit())
    trainer = kit.trainer(tmp_path, callbacks=[watch, ExponentialMovingAverage(0.5)])
    trainer.train(2, manager())
    tree = torch.load(trainer.checkpoints.path("last"), weights_only=True)
    network = kit.build()
    network.load_state_dict(tree["model"])
    close(kit, kit.read(network), by_hand(watch.weights, 0.5, True)[-1])
    network.load_state_dict(tree["training_model"])
    close(kit, kit.read(network), watch.weights[-1])


def test_statistics_of_layers_are_those_of_the_training(tmp_path, manager):
    torch = pytest.importorskip("torch")
    from small_backends import normed_network, torch_kit

    kit = torch_kit()
    cls = normed_network(kit)
    plain = kit.trainer(tmp_path / "plain", kit.build(cls=cls))
    plain.train(2, manager())
    statistics = {name: value.clone() for name, value in plain.module.named_buffers()}
    trainer = kit.trainer(tmp_path / "average", kit.build(cls=cls), callbacks=[ExponentialMovingAverage(0.5)])
    trainer.train(2, manager(), manager(7))
    for name, value in trainer.module.named_buffers():
        assert torch.equal(value, statistics[name]), name
    assert not torch.equal(trainer.module.norm.weight, plain.module.norm.weight)


# ---- restarts


@pytest.mark.sampled("half")
@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("step", [2, 4, 5, 7])
@pytest.mark.parametrize("background", [False, True])
def test_a_resumed_run_ends_with_the_same_average(kit, tmp_path, manager, step, background):
    def build(path, stop=None):
        return kit.trainer(
            path, kit.build(dropout=0.5), callbacks=[Watch(kit, stop), ExponentialMovingAverage(0.9)],
            save_freq_steps=1, val_score_key="mse", save_in_background=background,
        )  # fmt: skip

    unbroken = build(tmp_path / "unbroken")
    unbroken.train(3, manager(), manager(7))
    with pytest.raises(Broken):
        build(tmp_path / "broken", step).train(3, manager(), manager(7))
    resumed = build(tmp_path / "broken")
    resumed.train(3, manager(), manager(7))
    assert kit.same(resumed.checkpoint_tree(), unbroken.checkpoint_tree())
    assert np.array_equal(kit.read(resumed.module), kit.read(unbroken.module))


@pytest.mark.sampled("values")
@pytest.mark.parametrize("score", [None, "mse"])
def test_a_further_train_goes_on_with_the_trained_weights(kit, tmp_path, manager, score):
    def build(path):
        return kit.trainer(path, kit.build(dropout=0.5), callbacks=[ExponentialMovingAverage(0.9)])

    unbroken = build(tmp_path / "unbroken")
    unbroken.train(4, manager(), manager(7), val_score_key=score)
    trainer = build(tmp_path / "twice")
    network = trainer.train(2, manager(), manager(7), val_score_key=score)
    assert np.array_equal(kit.read(network), model_of(kit, trainer, "last" if score is None else "best"))
    trainer.train(4, manager(), manager(7), val_score_key=score)
    assert kit.same(trainer.checkpoint_tree(), unbroken.checkpoint_tree())


def test_to_train_a_finished_run_gives_the_average_again(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, callbacks=[ExponentialMovingAverage(0.9)])
    first = kit.read(trainer.train(2, manager()))
    assert np.array_equal(kit.read(trainer.train(2, manager())), first)
    again = kit.trainer(tmp_path, callbacks=[ExponentialMovingAverage(0.9)])
    assert np.array_equal(kit.read(again.train(2, manager())), first)


def test_an_average_that_is_added_to_a_run_begins_with_its_weights(kit, tmp_path, manager):
    plain = Watch(kit)
    kit.trainer(tmp_path, callbacks=[plain]).train(2, manager())
    watch, average = Watch(kit), ExponentialMovingAverage(0.9)
    trainer = kit.trainer(tmp_path, callbacks=[watch, average])
    trainer.train(4, manager())
    assert average.n_updates == 6
    close(kit, kit.read(trainer.module), by_hand(watch.weights, 0.9, True, start=plain.weights[-1])[-1])
    reference = Watch(kit)
    kit.trainer(tmp_path / "plain", callbacks=[reference]).train(4, manager())
    assert np.array_equal(reference.weights, plain.weights + watch.weights)


def test_an_average_that_is_left_out_of_a_resumed_run_leaves_the_trained_weights(kit, tmp_path, manager):
    trainer = kit.trainer(tmp_path, callbacks=[ExponentialMovingAverage(0.9)])
    trainer.train(2, manager())
    resumed = kit.trainer(tmp_path)
    resumed.train(4, manager())
    plain = kit.trainer(tmp_path / "plain")
    plain.train(4, manager())
    assert np.array_equal(kit.read(resumed.module), kit.read(plain.module))
    assert "training_model" not in resumed.load_state(resumed.checkpoints.path("last"))


def test_a_state_that_is_taken_over_and_saved_again_is_the_same(kit, tmp_path, manager):
    """Taking over and saving are no update."""
    trainer = kit.trainer(tmp_path / "a", callbacks=[ExponentialMovingAverage(0.9)])
    trainer.train(2, manager())
    other = kit.trainer(tmp_path / "b", callbacks=[ExponentialMovingAverage(0.9)])
    other.update_state(trainer.checkpoints.path("last"))
    path = other.save_state(tmp_path / "again")
    trees = other.load_state(path), trainer.load_state(trainer.checkpoints.path("last"))
    for name in ("model", "training_model", "optimizer", "state"):
        assert kit.same(*(tree[name] for tree in trees)), name


def test_an_average_does_not_move_in_an_epoch_that_fails(kit, tmp_path, manager):
    average = ExponentialMovingAverage(0.9)
    trainer = kit.trainer(tmp_path, callbacks=[average, Watch(kit, 5)], save_freq=1)
    with pytest.raises(Broken):
        trainer.train(3, manager())
    assert average.n_updates == 5
    trainer.train(3, manager())
    unbroken = kit.trainer(tmp_path / "unbroken", callbacks=[ExponentialMovingAverage(0.9)], save_freq=1)
    unbroken.train(3, manager())
    assert average.n_updates == 9
    assert np.array_equal(kit.read(trainer.module), kit.read(unbroken.module))


# ---- what an update is


@pytest.mark.parametrize(("steps", "updates"), [(2, 4), (3, 2), (5, 2)])
@pytest.mark.parametrize("as_data", ["manager", "list", "stream"])
def test_with_accumulation_updates_are_counted_and_not_steps(tmp_path, manager, steps, updates, as_data):
    """Batches of 4, 4 and 2, twice; what is left of a group is applied at the end of an epoch."""
    pytest.importorskip("torch")
    from small_backends import torch_kit

    class Stream:
        def __init__(self, data):
            self.data = data

        def __iter__(self):
            return iter(self.data)

    kit, watch, average = torch_kit(), Watch(torch_kit()), ExponentialMovingAverage(0.5, warmup=False)
    data = manager() if as_data == "manager" else list(manager())
    data = Stream(data) if as_data == "stream" else data

    class AtEnd:
        def at_epoch_end(self, trainer, **facts):
            watch.weights.append(kit.read(trainer.module).astype(np.float64))

    trainer = kit.trainer(tmp_path, callbacks=[watch, AtEnd(), average], gradient_accumulation_steps=steps, save_freq=1)
    trainer.train(2, data)
    assert average.n_updates == updates
    changed = [b for a, b in zip([START, *watch.weights], watch.weights, strict=False) if not np.array_equal(a, b)]
    assert len(changed) == updates
    close(kit, kit.read(trainer.module), by_hand(changed, 0.5, False)[-1])


def test_updates_that_are_skipped_do_not_count(tmp_path, regression):
    pytest.importorskip("torch")
    from small_backends import torch_kit

    kit, watch, average = torch_kit(), Watch(torch_kit()), ExponentialMovingAverage(0.5, warmup=False)
    batches = [regression(4, seed=seed) for seed in range(3)]
    batches[1]["label"][0] = np.nan
    trainer = kit.trainer(tmp_path, callbacks=[watch, average], nonfinite="skip")
    trainer.train(1, batches)
    assert average.n_updates == 2
    close(kit, kit.read(trainer.module), by_hand([watch.weights[0], watch.weights[2]], 0.5, False)[-1])


# ---- mistakes


def test_two_of_them_are_refused_wherever_the_second_comes_from(kit, tmp_path, manager):
    text = "there is an ExponentialMovingAverage already"
    with pytest.raises(ConfigError, match=text):
        kit.trainer(tmp_path, callbacks=[ExponentialMovingAverage(), ExponentialMovingAverage()])
    trainer = kit.trainer(tmp_path, callbacks=[ExponentialMovingAverage(0.5)])
    with pytest.raises(ConfigError, match=text):
        trainer.register_callback(ExponentialMovingAverage())
    trainer.train(2, manager())  # the refused one is not left behind


def test_one_that_is_registered_later_is_the_same(kit, tmp_path, manager):
    results = []
    for later in (False, True):
        average = ExponentialMovingAverage(0.5)
        trainer = kit.trainer(tmp_path / str(later), callbacks=[] if later else [average])
        if later:
            trainer.register_callback(average)
        trainer.train(2, manager())
        results.append(kit.read(trainer.module))
    assert np.array_equal(*results)


@pytest.mark.parametrize("decay", [1, 1.5, -0.1, float("nan"), "0.9"])
def test_an_impossible_decay_is_refused(decay):
    with pytest.raises(ConfigError, match=r"decay (must be|is a number)"):
        ExponentialMovingAverage(decay)


def test_an_experiment_tests_and_gives_back_the_average(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, name="average")
    watch = Watch(kit)
    network = experiment.run(manager(), callbacks=[ExponentialMovingAverage(0.5)])
    trainer = kit.trainer(tmp_path / "by hand", callbacks=[watch, ExponentialMovingAverage(0.5)])
    assert kit.read(network).shape == kit.read(trainer.module).shape
    path = next((tmp_path / "average").rglob(f"checkpoint_last{kit.backend.checkpoint_suffix}"))
    assert np.array_equal(kit.read(network), kit.weight_in(trainer.load_state(path)["model"]))


# ---- the averaged weights alone, without a trainer


class Average:
    """An average that somebody sets."""

    def __init__(self, kit, value):
        self.kit, self.value, self.taken = kit, value, []

    def weights(self):
        return None if self.value is None else {self.kit.weight_name: self.value}

    def take(self, network):
        self.taken.append(self.kit.read(network))


@pytest.fixture
def averaged(kit):
    """Parts whose average is twice the weights, and the weights."""
    parts = Parts(kit)
    own = kit.read(parts.run.network)
    other = kit.build()
    kit.write(other, 2 * own)
    parts.averages.use(Average(kit, kit.backend.checkpoints.state_tree(other, {})["model"][kit.weight_name]))
    return parts, own


def test_without_a_callback_there_is_no_average(kit):
    parts = Parts(kit)
    before = kit.read(parts.run.network)
    assert parts.averages.weights() is None
    assert parts.averages.lent() is None
    with parts.averages.in_use():
        assert np.array_equal(kit.read(parts.run.network), before)
    assert parts.averages.to_tree({"w": 1}) == {"model": {"w": 1}}


def test_the_network_has_the_average_while_it_is_in_use_and_its_own_after_an_error(kit, averaged):
    parts, own = averaged
    seen = []

    def fail():
        with parts.averages.in_use():
            seen.append(kit.read(parts.run.network))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert np.allclose(seen, 2 * own)
    assert np.array_equal(kit.read(parts.run.network), own)


def test_a_checkpoint_holds_both(kit, averaged):
    parts, own = averaged
    tree = parts.averages.to_tree(parts.run.weights)
    assert np.allclose(kit.weight_in(tree["model"]), 2 * own)
    assert np.array_equal(kit.weight_in(tree["training_model"]), own)
    assert RENEWED not in tree


def test_weights_that_were_lent_are_given_back(kit, averaged):
    parts, own = averaged
    lent = parts.averages.lent()
    parts.run.backend.checkpoints.load_state_tree({"model": lent}, parts.run.network, {})
    assert parts.averages.trained is not None
    assert np.array_equal(kit.weight_in(parts.averages.to_tree(parts.run.weights)["training_model"]), own)
    parts.averages.take_back()
    assert np.array_equal(kit.read(parts.run.network), own)
    assert parts.averages.trained is None


def test_another_network_is_given_nothing_back(kit, averaged):
    parts, own = averaged
    parts.averages.lent()
    parts.run.network = other = kit.build()
    kit.write(other, own + 1)
    parts.averages.take_back()
    assert np.array_equal(kit.read(other), own + 1)


def test_a_second_average_is_refused(averaged):
    with pytest.raises(ConfigError, match="there is an Average already; the weights can have only one average"):
        averaged[0].averages.use(object())


def test_an_average_that_comes_later_continues_that_of_the_checkpoint(kit, averaged):
    parts, own = averaged
    tree = parts.averages.to_tree(parts.run.weights)
    later = Parts(kit)
    later.averages.take(tree)
    callback = Average(kit, None)
    later.averages.use(callback)
    later.averages.go_on(callback)
    later.averages.go_on(callback)
    (taken,) = callback.taken
    assert np.allclose(taken, 2 * own)
    assert np.array_equal(kit.read(later.run.network), own), "it only looked at them"


def test_caveats_name_folds_and_statistics():
    class Fold:
        def __init__(self, fold, *raw_statistics):
            self.fold, self.raw_statistics = fold, raw_statistics

    assert caveats_of_averages([Fold(0)], is_training=False) == []
    (told,) = caveats_of_averages([Fold(0), Fold(1, "a", "b", "c"), Fold(2, "a")], is_training=False)
    assert told.startswith("fold 1, 2: tested with averaged weights with running statistics (a, b and 1 more)")
