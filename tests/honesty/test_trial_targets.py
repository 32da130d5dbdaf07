"""Input and target that a step changes: the loss and the metrics of the step see the same."""

import numpy as np
import pytest
from trial_makers import DIFFERENTIABLE, INPUTS, TARGETS, line_trial, need

from delira.metrics import lambda_metric
from delira.state import LOSS, MODEL, Y_PRED, Y_TRUE, X
from delira.training.callbacks import on_backward, on_criterion, on_forward
from delira.trial import base_closure

BACKENDS = pytest.mark.parametrize("framework", DIFFERENTIABLE)


@lambda_metric("target")
def mean_target(y_pred, y_true):
    return y_true.mean() if hasattr(y_true, "mean") else np.mean(y_true)


def fit(framework, callbacks=(), *, closure=None, batch_size=24, **settings):
    trial = line_trial(framework, callbacks, ["loss", "mse", mean_target], batch_size=batch_size, seed=0, **settings)
    return (trial if closure is None else trial.with_closure(closure)).run(1)[0]


def shift(state):
    state[Y_TRUE] = state[Y_TRUE] + 2.0


def by_hand(shifted):
    """The mean squared error of the first weights, in float64."""
    return np.mean((INPUTS.astype("f8") @ np.full((3, 1), 0.1) - TARGETS - shifted) ** 2)


@BACKENDS
@pytest.mark.parametrize("closure", [None, base_closure], ids=["its own", "base_closure"])
def test_a_target_that_on_forward_changes_is_that_of_loss_and_metrics(framework, closure):
    need(framework)
    record = fit(framework, [on_forward(shift)], closure=closure and closure())
    assert record["loss"] == pytest.approx(by_hand(2.0), rel=1e-5)
    assert record["mse"] == pytest.approx(by_hand(2.0), rel=1e-5)
    assert record["target"] == pytest.approx(TARGETS.mean() + 2.0, rel=1e-5)


@BACKENDS
@pytest.mark.parametrize("hook", [on_criterion, on_backward])
def test_a_target_that_is_changed_later_is_that_of_the_metrics_everywhere(framework, hook):
    need(framework)
    record = fit(framework, [hook(shift)])
    assert record["loss"] == pytest.approx(by_hand(0.0), rel=1e-5)
    assert record["mse"] == pytest.approx(by_hand(2.0), rel=1e-5)


def test_a_target_that_the_network_changes_is_that_of_loss_and_metrics():
    torch = pytest.importorskip("torch")

    class Shifting(torch.nn.Linear):
        def forward(self, x, state):
            shift(state)
            return super().forward(x)

    net = Shifting(3, 1, bias=False)
    net.weight.data = torch.full((1, 3), 0.1)
    record = fit("torch", net=net)
    assert record["loss"] == pytest.approx(by_hand(2.0), rel=1e-5)
    assert record["mse"] == pytest.approx(by_hand(2.0), rel=1e-5)


@BACKENDS
def test_an_input_that_on_forward_changes_is_that_of_the_metrics(framework):
    need(framework)
    seen = []
    from delira.training.callbacks import on_step_training

    @on_forward
    def double(state):
        state[X] = 2.0 * state[X]

    look = on_step_training(lambda state: seen.append(np.asarray(state[X])))
    line_trial(framework, [double, look], seed=0, batch_size=24).run(1)
    assert np.allclose(np.sort(seen[0], axis=0), np.sort(2.0 * INPUTS, axis=0), rtol=1e-5)


def test_every_part_of_a_batch_has_its_changed_target():
    need("torch")
    record = fit("torch", [on_forward(shift)], micro_batches=3)
    assert record["loss"] == pytest.approx(by_hand(2.0), rel=1e-5)
    assert record["mse"] == pytest.approx(by_hand(2.0), rel=1e-5)
    assert record["target"] == pytest.approx(TARGETS.mean() + 2.0, rel=1e-5)


def test_an_optimizer_that_asks_several_times_changes_the_target_once():
    torch = pytest.importorskip("torch")
    losses = []
    look = on_criterion(lambda state: losses.append((float(state[LOSS].detach()), float(state[Y_TRUE].mean()))))
    trial = line_trial("torch", [on_forward(shift), look], seed=0, batch_size=24)
    trial.state["optimizer"] = torch.optim.LBFGS(trial.state[MODEL].parameters(), max_iter=4)
    trial.run(1)
    assert len(losses) > 1
    assert {round(target, 4) for _, target in losses} == {round(float(TARGETS.mean()) + 2.0, 4)}


def test_targets_that_nobody_changes_cost_no_copy():
    need("torch")
    seen = []
    from delira.training.callbacks import on_sample, on_step_training

    first = on_sample(lambda state: seen.append((id(state[X]), id(state[Y_TRUE]))))
    last = on_step_training(lambda state: seen.append((id(state[X]), id(state[Y_TRUE]))))
    line_trial("torch", [first, last], seed=0, batch_size=24).run(1)
    assert seen[0] == seen[1]


def test_an_estimator_is_measured_by_the_target_that_its_hooks_leave():
    need("sklearn")
    record = line_trial("sklearn", [on_forward(shift)], ["loss", "mse", mean_target], seed=0, batch_size=24).run(1)[0]
    assert record["mse"] == pytest.approx(record["loss"], rel=1e-5)
    assert record["target"] == pytest.approx(TARGETS.mean() + 2.0, rel=1e-5)


def test_a_validation_sees_what_its_hooks_leave():
    need("torch")
    from delira.training.callbacks import on_forward_validation

    trial = line_trial("torch", [on_forward_validation(shift)], ["loss", "mse"], seed=0)
    values = trial.with_val_data(INPUTS, TARGETS, 7).evaluate()
    assert values["val_loss"] == pytest.approx(by_hand(2.0), rel=1e-5)
    assert values["val_mse"] == pytest.approx(by_hand(2.0), rel=1e-5)
    assert Y_PRED in trial.state
