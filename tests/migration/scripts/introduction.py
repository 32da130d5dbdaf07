"""The introduction, in the spelling of 0.3 and 0.4: loading, dataset, manager, network, closure, training."""

import logging
import os

import numpy as np
import torch
from skimage.io import imsave

from delira.data_loading import BaseCacheDataset, BaseDataManager, RandomSampler, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment, PyTorchNetworkTrainer
from delira.training.train_utils import create_optims_default_pytorch
from delira.utils.context_managers import DefaultOptimWrapperTorch

os.makedirs("images")
rng = np.random.RandomState(0)
for number in range(12):
    picture = rng.randint(0, 100, (6, 6)) + 150 * (number % 2)
    imsave(f"images/{number:02d}.png", np.clip(picture, 0, 255).astype(np.uint8), check_contrast=False)
    np.savetxt(f"images/{number:02d}.txt", [number % 2])


def load(path, img_shape):
    from skimage.io import imread

    stem = os.path.splitext(path)[0]
    return {
        "data": imread(path).astype(np.float32)[None] / 255,
        "label": np.loadtxt(stem + ".txt").astype(np.float32).reshape(1),
    }


paths = [os.path.join("images", name) for name in sorted(os.listdir("images")) if name.endswith(".png")]
dataset = BaseCacheDataset(paths, load, img_shape=(6, 6))
manager = BaseDataManager(dataset, 4, 1, transforms=None, sampler_cls=SequentialSampler)
assert [batch["data"].shape for batch in manager.get_batchgen()] == [(4, 1, 6, 6)] * 3


class Brightness(AbstractPyTorchNetwork):
    def __init__(self, in_channels, n_outputs):
        super().__init__(in_channels=in_channels, n_outputs=n_outputs)
        self.module = self._build_model(in_channels, n_outputs)

    def forward(self, input_batch):
        return {"pred": self.module(input_batch.mean(dim=(2, 3)))}

    @staticmethod
    def _build_model(in_channels, n_outputs):
        linear = torch.nn.Linear(in_channels, n_outputs)
        torch.nn.init.zeros_(linear.weight)
        torch.nn.init.zeros_(linear.bias)
        return linear

    @staticmethod
    def closure(model, data_dict: dict, optimizers: dict, criterions={}, metrics={}, fold=0, **kwargs):  # noqa: B006
        assert (optimizers and criterions) or not optimizers, "Criterion dict cannot be empty, if optimizers are passed"
        loss_vals, metric_vals, total_loss = {}, {}, 0
        inputs = data_dict.pop("data")
        with torch.enable_grad() if optimizers else torch.no_grad():
            preds = model(inputs)
            if data_dict:
                for key, crit_fn in criterions.items():
                    _loss_val = crit_fn(preds["pred"], *data_dict.values())
                    loss_vals[key] = _loss_val.detach()
                    total_loss += _loss_val
                with torch.no_grad():
                    for key, metric_fn in metrics.items():
                        metric_vals[key] = metric_fn(preds["pred"], *data_dict.values())
        if optimizers:
            optimizers["default"].zero_grad()
            total_loss.backward()
            optimizers["default"].step()
        else:
            metric_vals = {"val_" + key: value for key, value in metric_vals.items()}
            loss_vals = {"val_" + key: value for key, value in loss_vals.items()}
        for key, value in {**metric_vals, **loss_vals}.items():
            logging.info({"value": {"value": value.item(), "name": key, "env_appendix": "_%02d" % fold}})
        return metric_vals, loss_vals, [preds["pred"]]


params = Parameters(
    fixed_params={
        "model": {"in_channels": 1, "n_outputs": 1},
        "training": {
            "criterions": {"MSE": torch.nn.MSELoss()},
            "optimizer_cls": torch.optim.SGD,
            "optimizer_params": {"lr": 0.5},
            "metrics": {},
            "lr_sched_cls": None,
            "lr_sched_params": {},
            "num_epochs": 3,
        },
    }
)
experiment = PyTorchExperiment(params, Brightness, name="introduction", save_path="./experiments")
network = experiment.run(manager)

# by hand: the mean of the pixels, a line, gradient descent
x = np.array([load(path, None)["data"].mean() for path in paths])
y = np.array([number % 2 for number in range(12)], float)
slope = offset = 0.0
for _ in range(3):
    for start in (0, 4, 8):
        part, target = x[start : start + 4], y[start : start + 4]
        error = slope * part + offset - target
        slope, offset = slope - 0.5 * 2 * (error * part).mean(), offset - 0.5 * 2 * error.mean()
np.testing.assert_allclose(network.module.weight.item(), slope, rtol=1e-4)
np.testing.assert_allclose(network.module.bias.item(), offset, rtol=1e-4)


class Plain(AbstractPyTorchNetwork):
    """Has the closure of the library."""

    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.ones_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


# a closure is called by hand, with a wrapped and with a plain optimizer
batch = {"data": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "label": torch.zeros(2, 1)}
for wrap in (DefaultOptimWrapperTorch, lambda optimizer: optimizer):
    model = Plain()
    optimizer = wrap(torch.optim.SGD(model.parameters(), lr=0.1))
    metrics, losses, preds = Plain.closure(
        model, dict(batch), {"default": optimizer}, losses={"l2": torch.nn.MSELoss()}, metrics={}, fold=0
    )
    assert abs(float(losses["l2"]) - (9 + 49) / 2) < 1e-5
    np.testing.assert_allclose(model.dense.weight.detach().numpy(), [[1 - 0.1 * 24, 1 - 0.1 * 34]], rtol=1e-5)

# a trainer by positions, in the order of 0.3
model = Plain()
points = BaseDataManager(
    {"data": np.array([[1, 2], [3, 4]], np.float32), "label": np.zeros((2, 1), np.float32)}, 2, 0, transforms=None
)
trainer = PyTorchNetworkTrainer(model, "./by_hand", {"l2": torch.nn.MSELoss()}, torch.optim.SGD, {"lr": 0.1})
trainer.train(1, points)
np.testing.assert_allclose(model.dense.weight.detach().numpy(), [[1 - 0.1 * 24, 1 - 0.1 * 34]], rtol=1e-5)
assert create_optims_default_pytorch(model, torch.optim.SGD, lr=0.1)["default"].param_groups[0]["lr"] == 0.1
assert len(RandomSampler.from_dataset(dataset)) == 12
