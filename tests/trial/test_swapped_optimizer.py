"""What belongs to an optimizer follows when a callback sets another one."""

import numpy as np
import pytest
from kits import DIFFERENTIABLE, quiet

from delira.state import EPOCH, OPTIMIZER
from delira.training.callbacks import StepLR
from delira.training.callbacks.decorators import on_end_epoch, on_start_epoch


@pytest.mark.parametrize("kit", DIFFERENTIABLE, indirect=True)
def test_a_schedule_begins_anew_with_another_optimizer(kit, line):
    net, rates = kit.linear(np.zeros((3, 2))), []
    other = kit.tunable_sgd(net, 1.0)

    @on_start_epoch
    def swap(state):
        if state[EPOCH] == 3:
            state[OPTIMIZER] = other

    @on_end_epoch
    def note(state):
        rates.append(trial.learning_rates()[0])

    callbacks = [swap, note, StepLR(2, 0.5)]
    trial = quiet(net, kit.tunable_sgd(net, 0.1), kit.mse, ["loss"], callbacks).with_train_data(*line, batch_size=6)
    trial.run(7)
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.05, 1.0, 1.0, 0.5, 0.5], rtol=1e-6)
