"""After a training the network predicts: in evaluation mode, in every backend."""

import numpy as np
import pytest
from bare_parts import Parts, plan_of
from small_backends import KITS, build_kit, normed_network

import delira
from delira import state as keys
from delira.callbacks.abstract_callback import Callback
from delira.training.epoch import StepValues
from delira.training.evaluation import StopInValidation, Watcher


def predicted(kit, network, data):
    """What the network itself says, called as a user would."""
    batch = network.prepare_batch({"data": data, "label": data[:, :1]}, "cpu", "cpu")
    return kit.backend.arrays.to_numpy(network(batch["data"]))["pred"]


@pytest.mark.sampled("values")
@pytest.mark.parametrize("kit", [*KITS], indirect=True)
@pytest.mark.parametrize("is_run", [False, True])
def test_dropout_is_over_after_train_and_run(is_run, kit, tmp_path, manager):
    if is_run:
        experiment = kit.experiment(tmp_path, {"dropout": 0.5})
        network = experiment.run(manager(), manager(7), num_epochs=1)
    else:
        network = kit.trainer(tmp_path, kit.build(dropout=0.5)).train(1, manager(), manager(7))
    data = np.random.default_rng(0).normal(size=(64, 3))
    expected = data @ np.asarray(kit.read(network), dtype=np.float64)
    np.testing.assert_allclose(predicted(kit, network, data), expected, rtol=1e-4, atol=1e-5)


def test_one_sample_is_enough_for_batch_statistics(tmp_path, manager):
    torch = pytest.importorskip("torch")
    kit = build_kit("torch")

    network = kit.experiment(tmp_path, cls=normed_network(kit)).run(manager(), num_epochs=1)
    before = network.norm.running_mean.clone()
    network(torch.ones(1, 3))  # in training mode it raises
    assert torch.equal(network.norm.running_mean, before)


def test_a_further_train_learns_with_dropout_again(kit, tmp_path, manager):
    unbroken = kit.trainer(tmp_path / "unbroken", kit.build(dropout=0.5)).train(2, manager())
    trainer = kit.trainer(tmp_path / "broken", kit.build(dropout=0.5))
    trainer.train(1, manager())
    assert kit.same(kit.read(trainer.train(2, manager())), kit.read(unbroken))


def test_a_trial_leaves_its_module_in_evaluation_mode_too():
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
    trial = delira.Trial(module, torch.optim.SGD(module.parameters(), 0.1), torch.nn.MSELoss(), verbose=0)
    trial.with_train_data(torch.zeros(8, 2), torch.zeros(8, 1), batch_size=4).run(1)
    assert not any(each.training for each in module.modules())


# ---- watcher and evaluator alone, without a trainer


def pass_of(watcher, parts, batch):
    prepared = watcher.before(parts.feed.prepare(batch), batch)
    with parts.run.backend.calls.evaluating(parts.run.network):
        return watcher.after(parts.forward(prepared), prepared, len(batch["data"]))


def test_a_watcher_counts_batches_and_takes_their_losses(kit, regression):
    parts = Parts(kit)
    losses = StepValues(kit.backend.arrays.read_scalars)
    watcher = Watcher(parts.objective, losses=losses)
    for n in (4, 2):
        pass_of(watcher, parts, regression(n))
    assert watcher.number == 2
    one, other = losses["mse"]
    assert losses.reduce()["mse"] == pytest.approx((4 * one + 2 * other) / 6)


def test_without_losses_none_are_computed(kit, regression):
    parts = Parts(kit)
    parts.objective.validation_losses = None
    watcher = Watcher(parts.objective)
    pass_of(watcher, parts, regression(4))
    assert (watcher.number, watcher.losses) == (1, None)


class Sees(Callback):
    def __init__(self, replace=None):
        self.replace, self.seen = replace, []

    def on_sample_validation(self, state):
        self.seen.append(("sample", state[keys.BATCH]))

    def on_forward_validation(self, state):
        self.seen.append(("forward", state[keys.BATCH]))
        if self.replace is not None:
            state[keys.Y_PRED] = self.replace(state[keys.Y_PRED])

    def on_step_validation(self, state):
        self.seen.append(("step", state[keys.BATCH]))


def test_callbacks_see_every_batch_and_what_they_make_of_predictions_counts(kit, regression):
    sees = Sees(lambda pred: pred * 0)
    parts = Parts(kit, sees)
    watcher = Watcher(parts.objective)
    predictions = pass_of(watcher, parts, regression(4))
    pass_of(watcher, parts, regression(4))
    assert not kit.backend.arrays.to_numpy(dict(predictions))["pred"].any()
    assert sees.seen == [(event, number) for number in (0, 1) for event in ("sample", "forward", "step")]


def test_predictions_that_are_kept_are_those_that_the_state_shows(kit, regression):
    parts, kept = Parts(kit, Sees()), []
    pass_of(Watcher(parts.objective, kept=kept), parts, regression(4))
    assert kept == [parts.run.hook_state[keys.Y_PRED]]


def test_a_signal_ends_the_pass(kit, regression):
    parts = Parts(kit)
    parts.run.stop_signals.received = 15
    with pytest.raises(StopInValidation):
        pass_of(Watcher(parts.objective), parts, regression(4))


@pytest.mark.parametrize(
    ("may_end", "before", "enough"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_a_pass_ends_before_its_time_where_it_may_and_only_by_who_asks_in_it(kit, may_end, before, enough):
    parts = Parts(kit)
    parts.objective.may_end_early = may_end
    parts.run.hook_state[keys.STOP_TRAINING] = before
    watcher = Watcher(parts.objective)
    parts.run.hook_state[keys.STOP_TRAINING] = True
    assert watcher.is_enough is enough


def test_a_validation_gives_its_values_the_prefix_and_tells_its_ends(kit, regression):
    heard = []

    class Ends(Callback):
        def on_start_validation(self, state):
            heard.append(("start", state[keys.DATA], state[keys.STEPS]))

        def on_end_validation(self, state):
            heard.append(("end", sorted(state[keys.METRICS])))
            state[keys.METRICS] = {**state[keys.METRICS], "mine": 2.0}

    parts = Parts(kit, Ends())
    data = [regression(4), regression(2)]
    values = parts.evaluator.validate(plan_of(data, data), 1)
    assert sorted(values) == ["mine", "val_mse"]
    assert heard == [("start", keys.VALIDATION_DATA, 2), ("end", ["val_mse"])]
    (how,) = parts.passes
    assert how["epoch"] == 1
    assert not how["keep_predictions"]


def test_a_test_is_a_phase_of_its_own_and_is_over_after_an_error(kit, regression):
    phases = []

    class Phases(Callback):
        phases = ("evaluate",)

        def on_start(self, state):
            phases.append(("start", state[keys.PHASE]))

        def on_end(self, state):
            phases.append(("end", state[keys.PHASE]))

    parts = Parts(kit, Phases())
    parts.evaluator.test([regression(4)])
    assert phases == [("start", "evaluate"), ("end", "evaluate")]
    with pytest.raises(KeyError):
        parts.evaluator.test([{"other": np.zeros((2, 3))}])
    assert phases[2:] == phases[:2]
    assert parts.run.phase == "fit"
    assert keys.GENERATOR not in parts.run.hook_state
