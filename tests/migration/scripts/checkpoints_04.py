"""A folder with checkpoints of version 0.4: they are named, and their weights can be taken."""

import logging
import os

import numpy as np
import torch

from delira.io.torch import load_checkpoint, save_checkpoint
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchNetworkTrainer

messages = []
handler = logging.Handler()
handler.emit = lambda record: messages.append(record.getMessage())
logging.getLogger("delira").addHandler(handler)


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(2, 1)

    def forward(self, x):
        return {"pred": self.dense(x)}


os.makedirs("old")
net = Net()
torch.save({"optimizer": {}, "model": net.state_dict(), "epoch": 2}, "old/checkpoint_epoch_2.pt")
trainer = PyTorchNetworkTrainer(
    Net(), "./old", {"x": "data"}, {"l2": torch.nn.MSELoss()}, torch.optim.SGD, {"lr": 0.1}
)  # fmt: skip
assert any("checkpoint_epoch_2.pt" in message and "update_state" in message for message in messages), messages
assert trainer.state.epoch == 0
assert trainer.update_state("old/checkpoint_epoch_2.pt") is trainer
np.testing.assert_array_equal(trainer.module.dense.weight.detach(), net.dense.weight.detach())
assert trainer.state.epoch == 2
save_checkpoint("own.pt", net, {}, 3)
assert load_checkpoint("own.pt")["epoch"] == 3
logging.getLogger("delira").removeHandler(handler)
