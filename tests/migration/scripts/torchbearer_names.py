"""What the examples of torchbearer import."""

import numpy as np
import torch

import delira
import delira.callbacks.imaging as imaging
from delira import Callback, StateKey, Trial, callbacks, metrics, state_key
from delira.callbacks import Best, CSVLogger, EarlyStopping, Interval, MostRecent, TensorBoard, imaging as same, on_end
from delira.callbacks.checkpointers import ModelCheckpoint
from delira.callbacks.cutout import Cutout, RandomErase
from delira.callbacks.init import KaimingNormal, WeightInit, ZeroBias
from delira.callbacks.manifold_mixup import ManifoldMixup
from delira.callbacks.mixup import Mixup
from delira.callbacks.torch_scheduler import CyclicLR, StepLR, TorchScheduler
from delira.cv_utils import DatasetValidationSplitter, SubsetDataset, get_train_valid_sets, train_valid_splitter
from delira.metrics import default_for_key, mean, running_mean, std, to_dict
from delira.training.metrics import Metric

assert imaging is same and delira.X is delira.INPUT == "x" and delira.Y_PRED == "y_pred"
assert callbacks.on_end is on_end and metrics.mean is mean
assert issubclass(Best, (Callback, ModelCheckpoint)) or callable(ModelCheckpoint)
for name in ("imaging", "decorators", "checkpointers"):
    assert getattr(delira.callbacks, name).__name__.startswith("delira.")

# ---- splits
x, y = torch.arange(10.0).reshape(10, 1), torch.arange(10)
x_train, y_train, x_val, y_val = train_valid_splitter(x, y, 0.3, shuffle=False)
assert (
    y_val.tolist() == [0, 1, 2] and y_train.tolist() == [3, 4, 5, 6, 7, 8, 9] and len(x_train) == 7 == 10 - len(x_val)
)
mixed = train_valid_splitter(x, y, 0.3)
assert sorted([*mixed[1].tolist(), *mixed[3].tolist()]) == list(range(10))
train, valid = get_train_valid_sets(x, y, None, 0.2, shuffle=False)
assert len(train) == 8 and valid[0][1] == 0
assert get_train_valid_sets(x, y, None, None)[1] is None
train, valid = get_train_valid_sets(x, y, (x[:1], y[:1]), None)
assert len(train) == 10 and len(valid) == 1
np.random.seed(3)
before = np.random.get_state()[1].tolist()
splitter = DatasetValidationSplitter(10, 0.4, shuffle_seed=7)
assert np.random.get_state()[1].tolist() == before
dataset = torch.utils.data.TensorDataset(x, y)
train, valid = splitter.get_train_dataset(dataset), splitter.get_val_dataset(dataset)
assert len(train) == 6 and len(valid) == 4 and isinstance(train, SubsetDataset)
assert sorted([int(train[i][1]) for i in range(6)] + [int(valid[i][1]) for i in range(4)]) == list(range(10))
assert DatasetValidationSplitter(10, 0.4, 7).train_ids == splitter.train_ids

# ---- a function that is optimised, without data: the first example
estimate = torch.tensor([2.0, 1.0, 10.0])
ESTIMATE = state_key("est")
assert isinstance(ESTIMATE, StateKey)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.pars = torch.nn.Parameter(estimate)

    def f(self):
        out = torch.zeros_like(self.pars)
        out[0], out[1], out[2] = self.pars[0] - 5, self.pars[1], self.pars[2] - 1
        return torch.sum(out**2)

    def forward(self, _, state):
        state[ESTIMATE] = self.pars.detach().unsqueeze(1)
        return self.f()


def loss(y_pred, y_true):
    return y_pred


@to_dict
class Est(Metric):
    def __init__(self):
        super().__init__("est")

    def process(self, state):
        return state[ESTIMATE].data


seen = []


@callbacks.on_step_training
def look(state):
    value = state[delira.METRICS]["loss"]
    seen.append(value)


@callbacks.on_end
def done(state):
    seen.append("end")


model = Model()
optim = torch.optim.SGD(model.parameters(), lr=0.01)
trial = Trial(model, optim, loss, [Est(), "loss"], callbacks=[done], verbose=0).for_train_steps(1000)
history = trial.run()
np.testing.assert_allclose(model.pars.detach().numpy(), [5, 0, 1], atol=1e-4)
np.testing.assert_allclose(np.ravel(history[-1]["est"]), [5, 0, 1], atol=1e-4)
assert seen == ["end"]
