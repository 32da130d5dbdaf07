"""The tutorial of 0.4 for own backends: TorchScript, with network, functions of files, trainer and experiment."""

import logging
import os
from functools import partial

import numpy as np
import torch

from delira.data_loading import AbstractDataset, BaseDataManager, SequentialSampler
from delira.io.torch import load_checkpoint, save_checkpoint
from delira.models.abstract_network import AbstractNetwork, AbstractPyTorchNetwork
from delira.training import BaseNetworkTrainer, Parameters, PyTorchExperiment
from delira.training.train_utils import convert_torch_tensor_to_npy, create_optims_default_pytorch

logger = logging.getLogger(__name__)


class AbstractTorchScriptNetwork(AbstractNetwork, torch.jit.ScriptModule):
    def __init__(self, **kwargs):
        torch.jit.ScriptModule.__init__(self)
        AbstractNetwork.__init__(self, **kwargs)

    def __call__(self, *args, **kwargs):
        return torch.jit.ScriptModule.__call__(self, *args, **kwargs)

    @staticmethod
    def prepare_batch(batch, input_device, output_device):
        return_dict = {"data": torch.from_numpy(batch.pop("data")).to(input_device).to(torch.float)}
        for key, vals in batch.items():
            return_dict[key] = torch.from_numpy(vals).to(output_device).to(torch.float)
        return return_dict


def save_checkpoint_torchscript(file, model=None, optimizers={}, epoch=None, **kwargs):  # noqa: B006
    for ending in (".pth", ".pt", ".ptj"):
        if file.endswith(ending):
            file = file[: -len(ending)]
    if isinstance(model, AbstractPyTorchNetwork):
        model = torch.jit.script(model)
    torch.jit.save(model, file + "_model.ptj")
    if optimizers or epoch:
        save_checkpoint(file + "_trainer_state.pt", None, optimizers=optimizers, epoch=epoch, **kwargs)


def load_checkpoint_torchscript(file, **kwargs):
    state = {"optimizer": {}, "epoch": None}
    if os.path.exists(file + "_trainer_state.pt"):
        state = load_checkpoint(file + "_trainer_state.pt", **kwargs)
    state["model"] = torch.jit.load(file + "_model.ptj").state_dict()
    return state


class TorchScriptNetworkTrainer(BaseNetworkTrainer):
    def __init__(
        self,
        network,
        save_path,
        key_mapping,
        losses=None,
        optimizer_cls=None,
        optimizer_params={},  # noqa: B006
        train_metrics={},  # noqa: B006
        val_metrics={},  # noqa: B006
        lr_scheduler_cls=None,
        lr_scheduler_params={},  # noqa: B006
        gpu_ids=[],  # noqa: B006
        save_freq=1,
        optim_fn=create_optims_default_pytorch,
        logging_type="tensorboardx",
        logging_kwargs={},  # noqa: B006
        fold=0,
        callbacks=[],  # noqa: B006
        start_epoch=1,
        metric_keys=None,
        convert_batch_to_npy_fn=convert_torch_tensor_to_npy,
        criterions=None,
        val_freq=1,
        **kwargs,
    ):
        if len(gpu_ids) > 1:
            logger.warning("multiple GPUs are not supported by this backend, only the first is used")
            gpu_ids = gpu_ids[:1]
        super().__init__(
            network=network,
            save_path=save_path,
            key_mapping=key_mapping,
            losses=losses,
            optimizer_cls=optimizer_cls,
            optimizer_params=optimizer_params,
            train_metrics=train_metrics,
            val_metrics=val_metrics,
            lr_scheduler_cls=lr_scheduler_cls,
            lr_scheduler_params=lr_scheduler_params,
            gpu_ids=gpu_ids,
            save_freq=save_freq,
            optim_fn=optim_fn,
            logging_type=logging_type,
            logging_kwargs=logging_kwargs,
            fold=fold,
            callbacks=callbacks,
            start_epoch=start_epoch,
            metric_keys=metric_keys,
            convert_batch_to_npy_fn=convert_batch_to_npy_fn,
            criterions=criterions,
            val_freq=val_freq,
            **kwargs,
        )

    def _setup(
        self,
        network,
        optim_fn,
        optimizer_cls,
        optimizer_params,
        lr_scheduler_cls,
        lr_scheduler_params,
        gpu_ids,
        key_mapping,
        convert_batch_to_npy_fn,
    ):
        assert optim_fn is create_optims_default_pytorch
        assert optimizer_cls is torch.optim.SGD
        self.setup_params = optimizer_params
        super()._setup(
            network,
            lr_scheduler_cls,
            lr_scheduler_params,
            gpu_ids,
            key_mapping,
            convert_batch_to_npy_fn,
            network.prepare_batch,
        )

    def save_state(self, file_name, epoch, **kwargs):
        save_checkpoint_torchscript(file_name, self.module, self.optimizers, epoch, **kwargs)

    @staticmethod
    def load_state(file_name, **kwargs):
        return load_checkpoint_torchscript(file_name, **kwargs)

    def _update_state(self, new_state):
        self.seen_states = [*getattr(self, "seen_states", []), new_state["epoch"]]
        self.module.load_state_dict(new_state["model"])
        return self


class TorchScriptExperiment(PyTorchExperiment):
    def __init__(
        self,
        params,
        model_cls,
        n_epochs=None,
        name=None,
        save_path=None,
        key_mapping=None,
        val_score_key=None,
        optim_builder=create_optims_default_pytorch,
        checkpoint_freq=1,
        trainer_cls=TorchScriptNetworkTrainer,
        **kwargs,
    ):
        super().__init__(
            params=params,
            model_cls=model_cls,
            n_epochs=n_epochs,
            name=name,
            save_path=save_path,
            key_mapping=key_mapping,
            val_score_key=val_score_key,
            optim_builder=optim_builder,
            checkpoint_freq=checkpoint_freq,
            trainer_cls=trainer_cls,
            **kwargs,
        )


class Net(AbstractTorchScriptNetwork):
    __constants__ = ["dense"]

    def __init__(self, in_features):
        super().__init__(in_features=in_features)
        self.dense = torch.nn.Linear(in_features, 1, bias=False)
        torch.nn.init.constant_(self.dense.weight, 0.5)

    @torch.jit.script_method
    def forward(self, x):
        return {"pred": self.dense(x)}

    @staticmethod
    def closure(model, data_dict, optimizers, losses={}, metrics={}, fold=0, **kwargs):  # noqa: B006
        assert losses or not optimizers, "losses are needed to train"
        loss_vals, metric_vals, total_loss = {}, {}, 0
        with torch.enable_grad() if optimizers else torch.no_grad():
            inputs = data_dict.pop("data")
            preds = model(inputs)
            for key, crit_fn in losses.items():
                loss = crit_fn(preds["pred"], *data_dict.values())
                loss_vals[key] = loss.item()
                total_loss += loss
            with torch.no_grad():
                for key, metric_fn in metrics.items():
                    metric_vals[key] = metric_fn(preds["pred"], *data_dict.values()).item()
        if optimizers:
            optimizers["default"].zero_grad()
            with optimizers["default"].scale_loss(total_loss) as scaled_loss:
                scaled_loss.backward()
            optimizers["default"].step()
        else:
            metric_vals = {f"val_{key}": value for key, value in metric_vals.items()}
            loss_vals = {f"val_{key}": value for key, value in loss_vals.items()}
        return metric_vals, loss_vals, {key: value.detach() for key, value in preds.items()}


class Samples(AbstractDataset):
    def __init__(self, length=20):
        super().__init__(None, None)
        self.length = length

    def __getitem__(self, index):
        x = np.array([index, 1, -index], dtype=np.float32) / self.length
        return {"data": x, "label": np.array([x[0] * 2 - 1], dtype=np.float32)}

    def __len__(self):
        return self.length

    def get_sample_from_index(self, index):
        return self[index]


def mean_absolute(pred, label):
    return np.abs(pred - label).mean()


def weights_by_hand(num_epochs, lr=0.1, batch_size=4):
    """The same by numpy."""
    dataset = Samples()
    x = np.stack([dataset[i]["data"] for i in range(20)]).astype(float)
    y = np.stack([dataset[i]["label"] for i in range(20)]).astype(float)
    w = np.full((3, 1), 0.5)
    for _ in range(num_epochs):
        for start in range(0, 20, batch_size):
            part, target = x[start : start + batch_size], y[start : start + batch_size]
            w -= lr * 2 * part.T @ (part @ w - target) / len(part)
    return w[:, 0]


params = Parameters(
    fixed_params={
        "model": {"in_features": 3},
        "training": {
            "losses": {"L2": torch.nn.MSELoss()},
            "optimizer_cls": torch.optim.SGD,
            "optimizer_params": {"lr": 0.1},
            "num_epochs": 3,
            "val_metrics": {"mae": mean_absolute},
            "lr_sched_cls": None,
            "lr_sched_params": {},
        },
    }
)
data = BaseDataManager(Samples(), 4, 1, transforms=None, sampler_cls=SequentialSampler)

experiment = TorchScriptExperiment(
    params, Net, name="Test", save_path="./tmp", key_mapping={"x": "data"}, val_score_key="mae", val_score_mode="min"
)
network = experiment.run(data, None)
np.testing.assert_allclose(network.dense.weight.detach().numpy()[0], weights_by_hand(3), rtol=1e-5)
trainer = experiment.last_trainer
assert trainer.setup_params == {"lr": 0.1}
files = sorted(path.name for path in trainer.save_path.iterdir())
for epoch in (1, 2, 3):  # the files of the user's own
    assert f"checkpoint_epoch_{epoch}_model.ptj" in files, files
    assert f"checkpoint_epoch_{epoch}_trainer_state.pt" in files, files
program = torch.jit.load(str(trainer.save_path / "checkpoint_epoch_2_model.ptj"))
np.testing.assert_allclose(program.dense.weight.detach().numpy()[0], weights_by_hand(2), rtol=1e-5)

# continued for two more epochs: as if it had never stopped
network = experiment.resume(trainer.save_path, data, num_epochs=5)
np.testing.assert_allclose(network.dense.weight.detach().numpy()[0], weights_by_hand(5), rtol=1e-5)
assert experiment.last_trainer.seen_states == [3]

predictions, metrics = experiment.test(network, data, {"mae": mean_absolute}, {"mae": ("pred", "label")})
assert predictions["pred"].shape == (20, 1)

outputs, scores = experiment.kfold(
    data, {"mae": mean_absolute}, num_splits=2, shuffle=False, metric_keys={"mae": ("pred", "label")}, val_split=None
)
assert list(outputs) == list(scores) == ["0", "1"]
