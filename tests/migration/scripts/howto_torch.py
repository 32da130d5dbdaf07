"""The tutorial of 0.4 for own backends, with PyTorch's trainer as the base: everything is overridden, and passed on."""

import logging
import os

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.io import torch_load_checkpoint, torch_save_checkpoint
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment, PyTorchNetworkTrainer
from delira.training.callbacks import StepLRCallbackPyTorch
from delira.training.train_utils import convert_torch_tensor_to_npy, create_optims_default_pytorch


class Trainer(PyTorchNetworkTrainer):
    def __init__(self, network, save_path, key_mapping, losses=None, optimizer_cls=None, optimizer_params={},
                 train_metrics={}, val_metrics={}, lr_scheduler_cls=None, lr_scheduler_params={}, gpu_ids=[],
                 save_freq=1, optim_fn=create_optims_default_pytorch, logging_type="tensorboardx", logging_kwargs={},
                 fold=0, callbacks=[], start_epoch=1, metric_keys=None,
                 convert_batch_to_npy_fn=convert_torch_tensor_to_npy, mixed_precision=False,
                 mixed_precision_kwargs={"enable_caching": True, "verbose": False, "allow_banned": False},
                 criterions=None, val_freq=1, **kwargs):  # fmt: skip
        super().__init__(network, save_path, key_mapping, losses, optimizer_cls, optimizer_params, train_metrics,
                         val_metrics, lr_scheduler_cls, lr_scheduler_params, gpu_ids, save_freq, optim_fn,
                         logging_type, logging_kwargs, fold, callbacks, start_epoch, metric_keys,
                         convert_batch_to_npy_fn, mixed_precision, mixed_precision_kwargs, criterions, val_freq,
                         **kwargs)  # fmt: skip
        self.is_own = True

    def _setup(self, network, optim_fn, optimizer_cls, optimizer_params, lr_scheduler_cls, lr_scheduler_params,
               gpu_ids, key_mapping, convert_batch_to_npy_fn, mixed_precision, mixed_precision_kwargs):  # fmt: skip
        assert optimizer_cls is torch.optim.SGD and key_mapping == {"x": "data"} and gpu_ids == []
        # half the rate, as the user's own set-up has it
        super()._setup(network, optim_fn, optimizer_cls, {"lr": optimizer_params["lr"] / 2}, lr_scheduler_cls,
                       lr_scheduler_params, gpu_ids, key_mapping, convert_batch_to_npy_fn, mixed_precision,
                       mixed_precision_kwargs)  # fmt: skip

    def save_state(self, file_name, epoch, **kwargs):
        torch_save_checkpoint(file_name + ".pth", self.module, self.optimizers, epoch, **kwargs)

    @staticmethod
    def load_state(file_name, **kwargs):
        return torch_load_checkpoint(file_name + ".pth", **kwargs)

    def _update_state(self, new_state):
        self.restored = new_state["epoch"]
        return super()._update_state({"model": new_state["model"], "epoch": new_state["epoch"]})

    def _train_single_epoch(self, batchgen, epoch, verbose=False):
        self.module.train()
        return super()._train_single_epoch(batchgen, epoch, verbose=verbose)

    def _at_training_end(self):
        return super()._at_training_end()


class Experiment(PyTorchExperiment):
    def __init__(self, params, model_cls, n_epochs=None, name=None, save_path=None, key_mapping=None,
                 val_score_key=None, optim_builder=create_optims_default_pytorch, checkpoint_freq=1,
                 trainer_cls=Trainer, **kwargs):  # fmt: skip
        super().__init__(params, model_cls, n_epochs, name, save_path, key_mapping, val_score_key=val_score_key,
                         optim_builder=optim_builder, checkpoint_freq=checkpoint_freq, trainer_cls=trainer_cls,
                         **kwargs)  # fmt: skip


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(8, 2)
y = (x @ np.array([[1.0], [3.0]], np.float32)).astype(np.float32)
data = BaseDataManager({"data": x, "label": y}, 4, 1, None, sampler_cls=SequentialSampler)


def by_hand(num_epochs, rate=0.1):
    w = np.zeros((2, 1))
    for epoch in range(num_epochs):
        for start in (0, 4):
            part, target = x[start : start + 4].astype(float), y[start : start + 4].astype(float)
            w -= rate * 0.5 ** (epoch // 2) * 2 * part.T @ (part @ w - target) / 4
    return w


def mae(pred, label):
    return np.abs(pred - label).mean()


params = Parameters(fixed_params={"model": {}, "training": {
    "losses": {"l2": torch.nn.MSELoss()}, "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.2},
    "num_epochs": 3, "val_metrics": {"mae": mae}, "lr_sched_cls": StepLRCallbackPyTorch,
    "lr_sched_params": {"step_size": 2, "gamma": 0.5},
}})  # fmt: skip
experiment = Experiment(params, Net, name="Test", save_path="./tmp", key_mapping={"x": "data"}, val_score_key="mae",
                        val_score_mode="lowest")  # fmt: skip
told = []
handler = logging.Handler()
handler.emit = lambda record: told.append(record.getMessage())
logging.getLogger("delira").addHandler(handler)
network = experiment.run(data, data)
logging.getLogger("delira").removeHandler(handler)
assert any("optimizer_params" in text and "manifest" in text for text in told)
np.testing.assert_allclose(network.dense.weight.detach().numpy().T, by_hand(3), rtol=1e-5)
trainer = experiment.last_trainer
assert trainer.is_own and trainer.learning_rates() == [0.05]
folder = trainer.save_path
assert {f"checkpoint_epoch_{epoch}.pth" for epoch in (1, 2, 3)} | {"checkpoint_best.pth"} <= {*os.listdir(folder)}
stored = torch_load_checkpoint(str(folder / "checkpoint_epoch_2.pth"))
np.testing.assert_allclose(stored["model"]["dense.weight"].numpy().T, by_hand(2), rtol=1e-5)
assert stored["epoch"] == 2

network = experiment.resume(folder, data, data, num_epochs=5)
np.testing.assert_allclose(network.dense.weight.detach().numpy().T, by_hand(5), rtol=1e-5)
assert experiment.last_trainer.restored == 3


class OwnSchedules(Trainer):
    """Makes the schedules by itself, as the tutorial does; and has one that passes none on."""

    passes = True

    def _setup(self, network, optim_fn, optimizer_cls, optimizer_params, lr_scheduler_cls, lr_scheduler_params,
               gpu_ids, key_mapping, convert_batch_to_npy_fn, mixed_precision, mixed_precision_kwargs):  # fmt: skip
        cls, given = (lr_scheduler_cls, lr_scheduler_params) if self.passes else (None, {})
        super()._setup(network, optim_fn, optimizer_cls, optimizer_params, cls, given, gpu_ids, key_mapping,
                       convert_batch_to_npy_fn, mixed_precision, mixed_precision_kwargs)  # fmt: skip
        if self.passes:
            for optimizer in self.optimizers.values():
                self.register_callback(lr_scheduler_cls(optimizer, **lr_scheduler_params))


class NoSchedule(OwnSchedules):
    passes = False


for cls, rate in ((OwnSchedules, 0.05), (NoSchedule, 0.1)):
    own = Experiment(params, Net, name=cls.__name__, save_path="./tmp", key_mapping={"x": "data"}, trainer_cls=cls)
    own.run(data, data)
    assert own.last_trainer.learning_rates() == [rate], (cls, own.last_trainer.learning_rates())
try:
    PyTorchNetworkTrainer._update_state(own.last_trainer, {"optimizer": {"other": {}}})
except Exception as error:
    assert "['other']" in str(error)
else:
    raise AssertionError("an optimizer that is not there is taken")

outputs, metrics = experiment.kfold(
    data, {"mae": mae}, num_epochs=2, num_splits=2, metric_keys={"mae": ("pred", "label")}
)
again, _ = experiment.kfold(data, {"mae": mae}, num_epochs=2, num_splits=2, metric_keys={"mae": ("pred", "label")},
                            resume="auto")  # fmt: skip
np.testing.assert_array_equal(outputs["1"]["pred"], again["1"]["pred"])
