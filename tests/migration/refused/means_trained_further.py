"""A trainer that trains again trains as many epochs more."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchNetworkTrainer


class Line(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


x = np.ones((4, 1), np.float32)
data = BaseDataManager({"data": x, "label": x}, 4, 0, transforms=None, sampler_cls=SequentialSampler)
trainer = PyTorchNetworkTrainer(
    Line(), "./line", {"x": "data"}, {"l2": torch.nn.MSELoss()}, torch.optim.SGD, {"lr": 0.1}
)
trainer.train(2, data)
network = trainer.train(2, data)  # means otherwise
np.testing.assert_allclose(network.dense.weight.item(), 1 - 0.8**4, rtol=1e-5)
for _ in range(3):
    trainer.train(num_epochs=1, datamgr_train=data)  # means otherwise
np.testing.assert_allclose(network.dense.weight.item(), 1 - 0.8**7, rtol=1e-5)
