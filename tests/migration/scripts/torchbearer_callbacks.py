"""Callbacks as the examples of torchbearer give their arguments."""

import warnings

import matplotlib

matplotlib.use("Agg")
import numpy as np
import torch
from matplotlib import pyplot

import delira as torchbearer
from delira import Trial, callbacks
from delira.callbacks import LiveLossPlot, Mixup, UnpackState, imaging
from delira.callbacks.init import WeightInit
from delira.metrics import TimerMetric

x = torch.linspace(0, 1, 64).reshape(4, 1, 4, 4)
y = torch.tensor([0, 1, 0, 1])


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))


def losses(model, *given, **keywords):
    trial = Trial(model, torch.optim.SGD(model.parameters(), 0.1), torch.nn.CrossEntropyLoss(), ["loss"],
                  callbacks=[*given], verbose=0)  # fmt: skip
    trial.with_train_data(x, y, batch_size=2, shuffle=False, num_workers=0)
    return [record["loss"] for record in trial.run(2)], trial


plain, _ = losses(network())

# ---- nothing is mixed with alpha=0, nothing initialised by default, and the input alone is unpacked
mixed = network()
trial = Trial(
    mixed,
    torch.optim.SGD(mixed.parameters(), 0.1),
    Mixup.mixup_loss(torch.nn.CrossEntropyLoss()),
    ["loss"],
    callbacks=[Mixup(alpha=0)],
    verbose=0,
)
trial.with_train_data(x, y, batch_size=2, shuffle=False, num_workers=0)
np.testing.assert_allclose([record["loss"] for record in trial.run(2)], plain, rtol=1e-6)
assert losses(network(), WeightInit())[0] == plain


class Unpacks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = network()

    def forward(self, entries):
        assert list(entries) == [torchbearer.X]
        return {torchbearer.Y_PRED: self.inner(entries[torchbearer.X])}


np.testing.assert_allclose(losses(Unpacks(), UnpackState())[0], plain, rtol=1e-6)

# ---- pictures
shown = []
pyplot.show = lambda: shown.append(1)
pictures = (
    imaging.CachingImagingCallback(key=torchbearer.X, num_images=2).on_train().to_pyplot(show=False, normalize=True)
)
losses(network(), pictures)
assert shown == [] and pyplot.get_fignums()
pixels = pyplot.gcf().axes[0].images[0].get_array()
assert (pixels.min(), pixels.max()) == (0, 255)
pyplot.close("all")
losses(network(), imaging.FromState(torchbearer.X).on_train().to_pyplot())
assert shown
pyplot.close("all")

# ---- further arguments of the package livelossplot, with a word about them
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    plot = LiveLossPlot(draw_once=True, figsize=(6, 4))
assert any("figsize" in str(warning.message) for warning in caught)
losses(network(), plot)
assert plot.figure().axes[0].get_title() == "loss"

# ---- parts of the time by the names of the events
model = network()
trial = Trial(model, torch.optim.SGD(model.parameters(), 0.1), torch.nn.CrossEntropyLoss(),
              ["loss", TimerMetric("on_forward", "on_backward", prints=False)], verbose=0)  # fmt: skip
record = trial.with_train_data(x, y, batch_size=2, num_workers=0).run(1)[0]
assert record["forward_seconds"] > 0 and record["backward_seconds"] > 0

# ---- test metrics in the history, if they are asked for
trial.with_test_generator([(x, y)])
values = trial.evaluate(data_key=torchbearer.TEST_DATA)
assert "test_loss" in values and "test_loss" not in trial.state[torchbearer.HISTORY][-1]
trial.evaluate(data_key=torchbearer.TEST_DATA, to_history=True)
assert trial.state[torchbearer.HISTORY][-1]["test_loss"] == values["test_loss"]
assert callbacks.TerminateOnNaN
