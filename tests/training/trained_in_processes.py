"""Networks, callbacks and closures that other processes import, and trainings of them."""

import contextlib
import threading
import time

import numpy as np
import torch

from delira import state as keys
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchExperiment, PyTorchNetworkTrainer
from delira.training.callbacks import AbstractCallback


class Net(AbstractPyTorchNetwork):
    def __init__(self, dropout=0.0, batchnorm=False):
        super().__init__(dropout=dropout, batchnorm=batchnorm)
        self.norm = torch.nn.BatchNorm1d(3) if batchnorm else torch.nn.Identity()
        self.drop = torch.nn.Dropout(dropout)
        self.linear = torch.nn.Linear(3, 1)
        with torch.no_grad():
            self.linear.weight.copy_(torch.linspace(-0.5, 0.5, 3))
            self.linear.bias.zero_()

    def forward(self, x):
        return {"pred": self.linear(self.drop(self.norm(x)))}


class Classes(AbstractPyTorchNetwork):
    """Three classes of every sample."""

    def __init__(self, dropout=0.0, batchnorm=False):
        super().__init__(dropout=dropout, batchnorm=batchnorm)
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return {"pred": self.linear(x)}


class Pixels(AbstractPyTorchNetwork):
    """Three classes of every pixel."""

    def __init__(self, dropout=0.0, batchnorm=False):
        super().__init__(dropout=dropout, batchnorm=batchnorm)
        torch.manual_seed(0)
        self.convolution = torch.nn.Conv2d(1, 3, 3, padding=1)

    def forward(self, x):
        return {"pred": self.convolution(x)}


class Fixed(Net):
    """It also tells what belongs to no sample, and what it keeps and tells in a type that gloo does not take."""

    def __init__(self, dropout=0.0, batchnorm=False):
        super().__init__(dropout, batchnorm)
        self.register_buffer("table", torch.ones(3, dtype=torch.int16))

    def forward(self, x):
        pred = super().forward(x)["pred"]
        return {"pred": pred, "centres": torch.ones(4, 3), "sign": (pred > 0).to(torch.int16)}


class Noisy(Net):
    """It prepares its batches with noise."""

    @staticmethod
    def prepare_batch(batch, input_device, output_device):
        prepared = AbstractPyTorchNetwork.prepare_batch(batch, input_device, output_device)
        return {**prepared, "data": prepared["data"] + torch.randn_like(prepared["data"])}


class Sparse(Net):
    """It prepares what no array of numpy can be made of."""

    @staticmethod
    def prepare_batch(batch, input_device, output_device):
        prepared = AbstractPyTorchNetwork.prepare_batch(batch, input_device, output_device)
        return {**prepared, "graph": torch.eye(50).to_sparse()}


class Following(Net):
    """It learns what differs from a mean that it follows."""

    def __init__(self, dropout=0.0, batchnorm=False):
        super().__init__(dropout, batchnorm)
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.mean.mul_(0.9).add_(0.1 * x.mean(0))
        return super().forward(x - self.mean)


class BatchNormBlock(torch.nn.Module):
    """It is called like the layer that it has, and has no statistics itself."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3, track_running_stats=False)

    def forward(self, x):
        return self.norm(x)


class Unfollowed(Net):
    """It normalises by the batch in validations, too."""

    def __init__(self, dropout=0.0, batchnorm=False):
        super().__init__(dropout, batchnorm)
        self.norm = BatchNormBlock()


class Deep(AbstractPyTorchNetwork):
    """Layers in a container, of which some have fewer rows than there are processes."""

    def __init__(self, dropout=0.0, batchnorm=False):
        super().__init__(dropout=dropout, batchnorm=batchnorm)
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 7), torch.nn.Tanh(), torch.nn.Linear(7, 5))
        self.last = torch.nn.Linear(5, 1)

    def forward(self, x):
        return {"pred": self.last(self.layers(x).tanh())}


class Gan(AbstractPyTorchNetwork):
    """Two parts, two optimizers, two backward passes, of which the second goes through both parts."""

    def __init__(self, dropout=0.0, batchnorm=False):
        super().__init__(dropout=dropout, batchnorm=batchnorm)
        torch.manual_seed(0)
        self.gen, self.discr = torch.nn.Linear(3, 1), torch.nn.Linear(1, 1)

    def forward(self, x):
        return {"pred": self.gen(x)}

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
        made = model.gen(data_dict["data"])
        real, fake = model.discr(data_dict["label"]), model.discr(made.detach())
        both = (real - 1).square().mean() + fake.square().mean()
        fooled = None
        for name, loss in (("discr", both), ("gen", fooled)):
            if loss is None:
                loss = fooled = (model.discr(made) - 1).square().mean()
            optimizers[name].zero_grad()
            with optimizers[name].scale_loss(loss) as scaled:
                scaled.backward()
            optimizers[name].step()
        return {}, {"discr": both.detach(), "gen": fooled.detach()}, {"pred": made.detach()}


class SquaresOfClasses(torch.nn.Module):
    """A mean over samples beside losses that are none."""

    def forward(self, pred, label):
        return pred.square().mean()


def plain_closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
    """Written by hand, with the scope that scales."""
    pred = model(data_dict["data"])["pred"]
    loss = losses["mse"](pred, data_dict["label"])
    optimizers["default"].zero_grad()
    with optimizers["default"].scale_loss(loss) as scaled:
        scaled.backward()
    optimizers["default"].step()
    return {}, {"mse": loss.detach()}, {"pred": pred.detach()}


def ignoring_closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
    """Written by hand, as for an optimizer of PyTorch."""
    pred = model(data_dict["data"])["pred"]
    loss = losses["mse"](pred, data_dict["label"])
    optimizers["default"].zero_grad()
    loss.backward()
    optimizers["default"].step()
    return {}, {"mse": loss.detach()}, {"pred": pred.detach()}


def measuring_closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
    """Written by hand; it measures something else than the predictions that it returns."""
    _, found, predictions = ignoring_closure(model, data_dict, optimizers, losses)
    values = {name: metric(predictions["pred"].tanh(), data_dict["label"]) for name, metric in metrics.items()}
    return values, found, predictions


def of_deep(model, cls, **params):
    return {name: cls(getattr(model, name).parameters(), **params) for name in ("layers", "last")}


def joint_closure(scaling):
    """One loss that two optimizers learn from; the scope of one of them scales it, if any does."""

    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
        pred = model(data_dict["data"])["pred"]
        loss = losses["mse"](pred, data_dict["label"])
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        with optimizers[scaling].scale_loss(loss) if scaling else contextlib.nullcontext(loss) as scaled:
            scaled.backward()
        for optimizer in optimizers.values():
            optimizer.step()
        return {}, {"mse": loss.detach()}, {"pred": pred.detach()}

    return closure


def rmse_of_step(pred, label):
    """No mean over samples."""
    return (pred - label).square().mean().sqrt()


def mse_of_epoch(y_true, y_pred):
    return float(((y_true - y_pred) ** 2).mean())


def of_gan(model, cls, **params):
    return {name: cls(getattr(model, name).parameters(), **params) for name in ("gen", "discr")}


def train(
    path, manager, epochs=2, optimizer_cls="SGD", closure=None, network=Net, dropout=0.0, batchnorm=False, before=None,
    val=None, **how,
):  # fmt: skip
    """Train in a folder, or go on there; the trainer, with which ``before`` was called."""
    params = {"SGD": {"lr": 0.01, "momentum": 0.9}}.get(optimizer_cls, {"lr": 0.01})
    made = network(dropout=dropout, batchnorm=batchnorm)
    if closure is not None:
        made.closure = closure
    of_net = {"losses": {"mse": torch.nn.MSELoss()}, "val_metrics": {"squares": mse_of_epoch}}
    settings = {"losses": {}, "optim_fn": of_gan} if network is Gan else of_net
    trainer = PyTorchNetworkTrainer(
        made, path, {"x": "data"}, optimizer_cls=getattr(torch.optim, optimizer_cls), optimizer_params=params,
        num_threads=1, verbose=0, logging_type=None, **{"save_freq": None, **settings, **how},
    )  # fmt: skip
    if before is not None:
        before(trainer)
    trainer.train(epochs, manager, manager if val is None else val)
    return trainer


def kfold(path, manager, executor=None, **how):
    """Cross-validate in three folds, here or by an executor."""
    training = {
        "losses": {"mse": torch.nn.MSELoss()}, "val_metrics": {"squares": mse_of_epoch}, "num_epochs": 2, "verbose": 0,
        "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.01}, "num_threads": 1, **how,
    }  # fmt: skip
    experiment = PyTorchExperiment({"training": training}, Net, save_path=path, key_mapping={"x": "data"})
    return experiment.kfold(manager, num_splits=3, random_seed=0, shuffle=True, executor=executor)


def values_of(trainer):
    """What the epochs were, without times."""
    return [{name: one for name, one in epoch.items() if "seconds" not in name} for epoch in trainer.state.history]


def weights_of(trainer):
    return {name: weight.detach().cpu().numpy() for name, weight in trainer.network.state_dict().items()}


class Clip(AbstractCallback):
    """Clips the gradients, as a hook."""

    def __init__(self, most):
        self.most = most

    def on_backward(self, state):
        torch.nn.utils.clip_grad_norm_(state[keys.MODEL].parameters(), self.most)


class ClipAll(Clip):
    def __init__(self):
        super().__init__(1e9)


class LeaveOut(AbstractCallback):
    """Leaves the samples of a class out of the losses of a share."""

    def on_sample(self, state):
        state[keys.Y_TRUE] = torch.where(state[keys.Y_TRUE] == 1, -100, state[keys.Y_TRUE])


class Noise(AbstractCallback):
    """Adds what every process draws by itself."""

    def on_backward(self, state):
        for weight in state[keys.MODEL].parameters():
            weight.grad.add_(torch.randn_like(weight))


class Where(AbstractCallback):
    """Each process tells how many samples its network sees."""

    def __init__(self, folder):
        self.folder = folder

    def on_forward(self, state):
        rank = torch.distributed.get_rank()
        with open(self.folder / f"{rank}.txt", "a") as file:
            file.write(f"{len(state[keys.X])}\n")


class SameSamples(AbstractCallback):
    """What a process sees after a step is of the same samples, which are those of its share."""

    sizes = ()

    def at_iter_end(self, trainer, *, data_dict, predictions, **facts):
        self.sizes += ((len(data_dict["data"]), len(data_dict["label"]), len(predictions["pred"])),)

    def on_step_training(self, state):
        self.sizes += ((len(state[keys.X]), len(state[keys.Y_TRUE]["label"]), len(state[keys.Y_PRED])),)


class Sleepy(AbstractCallback):
    def __init__(self, seconds):
        self.seconds = seconds

    def at_iter_end(self, trainer, **facts):
        time.sleep(self.seconds)


class Add(AbstractCallback):
    n_epochs = 0

    def at_epoch_end(self, trainer, **facts):
        self.n_epochs += 1


class Raises(AbstractCallback):
    def __init__(self, rank):
        self.rank = rank

    def at_iter_begin(self, trainer, *, iter_num, **facts):
        if torch.distributed.get_rank() == self.rank and iter_num == 2:
            raise ZeroDivisionError("of the user's")


class Broken(AbstractCallback):
    """Ends a training after a step of an epoch."""

    def __init__(self, epoch, step):
        self.when = epoch, step

    def at_iter_end(self, trainer, *, curr_epoch, iter_num, **facts):
        if (curr_epoch, iter_num) == self.when:
            raise ZeroDivisionError("of the user's")


class Drawn:
    """Batches with noise of the global generator, or of one that nobody seeds."""

    def __init__(self, is_seeded=True):
        self.is_seeded, rng = is_seeded, np.random.default_rng(0)
        self.data = rng.normal(size=(5, 8, 3)).astype(np.float32)

    def __len__(self):
        return 5

    def __iter__(self):
        for data in self.data:
            noise = np.random.randn(8, 3) if self.is_seeded else np.random.default_rng().normal(size=(8, 3))
            yield {"data": data + 0.1 * noise.astype(np.float32), "label": data.sum(1, keepdims=True)}


class NoTravel(AbstractCallback):
    def __init__(self):
        self.lock = threading.Lock()
