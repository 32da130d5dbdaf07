"""Steps of torchbearer: so many batches of the size that was asked for, going round in the data."""

import numpy as np
import torch

import delira as torchbearer
from delira import Trial, callbacks

x = np.arange(10, dtype=np.float32)[:, None]
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.from_numpy(x), torch.zeros(10, 1)), batch_size=4
)
seen = []


@callbacks.on_sample
@callbacks.on_sample_validation
def look(state):
    seen.append(len(state[torchbearer.X]))


def sizes(trial, call):
    seen.clear()
    call(trial)
    return list(seen)


def trial():
    model = torch.nn.Linear(1, 1)
    return Trial(model, torch.optim.SGD(model.parameters(), lr=0.0), torch.nn.MSELoss(), callbacks=[look], verbose=0)


y = np.zeros_like(x)
assert sizes(trial().with_train_data(x, y, batch_size=4).for_train_steps(2), lambda one: one.run(1)) == [4, 4]
assert sizes(trial().for_train_steps(2).with_train_data(x, y, batch_size=4), lambda one: one.run(2)) == [4, 4, 4, 4]
assert sizes(trial().with_train_data(x, y, batch_size=4).for_train_steps(5), lambda one: one.run(1)) == [4, 4, 2, 4, 4]
assert sizes(trial().with_train_generator(loader, steps=5), lambda one: one.run(1)) == [4, 4, 2, 4, 4]
assert sizes(trial().with_val_data(x, y, batch_size=5).for_val_steps(1), lambda one: one.evaluate()) == [5]
assert sizes(trial().with_test_data(x, batch_size=3).for_test_steps(2), lambda one: one.predict()) == [3, 3]
assert trial().with_test_data(x, batch_size=3).for_test_steps(2).predict().shape == (6, 1)

# for_steps after the data of all three
both = trial().with_data(x_train=x, y_train=y, x_val=x, y_val=y, x_test=x, batch_size=4).for_steps(2, 1, 1)
assert sizes(both, lambda one: one.run(1)) == [4, 4, 4]
record = both.history[-1]
assert (record["train_steps"], record["validation_steps"]) == (2, 1)
assert sizes(both, lambda one: one.predict()) == [4]
