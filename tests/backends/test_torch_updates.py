"""What lies between gradients and update in PyTorch: accumulation, clipping, leaving out."""

import copy
import math

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, NonFiniteLossError

torch = pytest.importorskip("torch")

from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import PyTorchNetworkTrainer, create_optims_gan_default_pytorch  # noqa: E402

MSE = torch.nn.functional.mse_loss
#: of losses in fp16, so small that no gradient here overflows: an overflow is an update that is left out
SCALE = 256.0


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))

    def forward(self, x):
        return {"pred": self.layers(x)}


class HandWritten(Net):
    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, **kwargs):
        loss = losses["mse"](model(data_dict["data"])["pred"], data_dict["label"])
        optimizers["default"].zero_grad()
        with optimizers["default"].scale_loss(loss) as scaled:
            scaled.backward()
        optimizers["default"].step()
        return {"mse": loss.detach()}, {}


class Stream:
    """Batches whose number is not known; they can be read again and again."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


def build(cls=Net, seed=0):
    torch.manual_seed(seed)
    return cls()


def batches_of(*sizes, seed=1, scale=1.0):
    """Float32 batches of a regression, of these sizes."""
    rng = np.random.default_rng(seed)
    shapes = {"data": 3, "label": 1}
    return [
        {name: (scale * rng.normal(size=(size, width))).astype(np.float32) for name, width in shapes.items()}
        for size in sizes
    ]


def joined(*batches):
    """Several batches as one large one."""
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def spoiled(batch):
    """The batch with a loss that is not a number."""
    return {**batch, "label": np.full_like(batch["label"], np.nan)}


def trainer_of(network, path, **settings):
    defaults = {
        "losses": {"mse": MSE},
        "optimizer_cls": torch.optim.SGD,
        "optimizer_params": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
        "logging_type": None,
        "verbose": False,
        "save_freq": None,
    }
    trainer = PyTorchNetworkTrainer(network, path, **{**defaults, **settings})
    for optimizer in trainer.optimizers.values():
        if optimizer.scaler.is_enabled():
            optimizer.scaler.load_state_dict(optimizer.scaler.state_dict() | {"scale": SCALE})
    return trainer


def train_by_hand(layers, epochs, between=lambda layers: None, cls=torch.optim.SGD, precision=None, **params):
    """A plain loop over ``epochs``, each a list of batches; ``between`` runs between gradients and update."""
    params = params or {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
    optimizer = cls(layers.parameters(), **params)
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE, enabled=precision == "fp16")
    for batches in epochs:
        for batch in batches:
            with torch.autocast("cpu", half, enabled=half is not None):
                loss = MSE(layers(torch.from_numpy(batch["data"])), torch.from_numpy(batch["label"]))
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            between(layers)
            scaler.step(optimizer)
            scaler.update()
    return optimizer


def assert_equal(left, right):
    """Bit for bit."""
    for ours, theirs in zip(left.parameters(), right.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def assert_close(left, right, **tolerance):
    for ours, theirs in zip(left.parameters(), right.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, **tolerance)


# ---- accumulation


@pytest.mark.parametrize("as_data", [list, Stream])
@pytest.mark.parametrize("cls", [Net, HandWritten])
@pytest.mark.parametrize(
    ("sizes", "steps", "groups"),
    [
        ((4, 4, 4, 4), 2, [(0, 1), (2, 3)]),
        ((4, 4, 4, 3), 2, [(0, 1), (2, 3)]),
        ((8, 3, 5, 8, 1), 3, [(0, 1, 2), (3, 4)]),
        ((4, 4, 2), 2, [(0, 1), (2,)]),
        ((4, 2), 5, [(0, 1)]),
    ],
)
def test_accumulated_batches_equal_one_large_batch(sizes, steps, groups, cls, as_data, tmp_path):
    network, batches = build(cls), batches_of(*sizes)
    layers = copy.deepcopy(network.layers)
    trainer = trainer_of(network, tmp_path, gradient_accumulation_steps=steps)
    trainer.train(3, as_data(batches))
    train_by_hand(layers, [[joined(*(batches[i] for i in group)) for group in groups]] * 3)
    assert_close(network.layers, layers)
    assert trainer.optimizers["default"].num_updates == 3 * len(groups)


def test_accumulated_batches_of_a_manager_equal_those_of_a_manager_with_larger_batches(tmp_path):
    arrays = joined(*batches_of(23))
    ours, theirs = build(), build()
    trainer_of(ours, tmp_path / "ours", gradient_accumulation_steps=3).train(3, BaseDataManager(arrays, batch_size=4))
    trainer_of(theirs, tmp_path / "theirs").train(3, BaseDataManager(arrays, batch_size=12))
    assert_close(ours, theirs)


def test_the_reported_loss_of_accumulated_batches_is_that_of_the_samples(tmp_path):
    batches = batches_of(4, 2)
    trainer = trainer_of(build(), tmp_path, gradient_accumulation_steps=2, optimizer_params={"lr": 0.0})
    trainer.train(1, batches)
    both = joined(*batches)
    expected = MSE(trainer.network.layers(torch.from_numpy(both["data"])), torch.from_numpy(both["label"]))
    assert trainer.state.history[-1]["mse"] == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("as_data", [list, Stream])
def test_accumulation_clips_the_gradient_of_the_whole_group(as_data, tmp_path):
    batches = batches_of(4, 3, 5, scale=5.0)
    network, norms = build(), []
    layers = copy.deepcopy(network.layers)

    def clip(layers):
        norms.append(float(torch.nn.utils.clip_grad_norm_(layers.parameters(), 0.5)))

    settings = {"gradient_accumulation_steps": 2, "gradient_clip_norm": 0.5}
    trainer_of(network, tmp_path, **settings).train(3, as_data(batches))
    train_by_hand(layers, [[joined(*batches[:2]), batches[2]]] * 3, clip)
    assert_close(network.layers, layers)
    assert max(norms) > 0.5  # something was clipped


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_accumulation_works_in_mixed_precision(precision, tmp_path):
    batches = batches_of(4, 4, 3)
    network = build()
    layers = copy.deepcopy(network.layers)
    trainer_of(network, tmp_path, gradient_accumulation_steps=2, mixed_precision=precision).train(2, batches)
    train_by_hand(layers, [[joined(*batches[:2]), batches[2]]] * 2, precision=precision)
    assert_close(network.layers, layers, rtol=2e-2, atol=2e-3)


def test_accumulation_does_not_lean_on_the_optimizer_that_zeroes_the_gradients(tmp_path):
    """``model.zero_grad()``, as many write it, must not wipe out what was accumulated."""

    class Zeroing(Net):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            loss = losses["mse"](model(data_dict["data"])["pred"], data_dict["label"])
            model.zero_grad()
            with optimizers["default"].scale_loss(loss) as scaled:
                scaled.backward()
            optimizers["default"].step()
            return {"mse": loss.detach()}, {}

    ours, theirs = build(Zeroing), build()
    batches = batches_of(4, 4, 3)
    for network, name in ((ours, "ours"), (theirs, "theirs")):
        trainer_of(network, tmp_path / name, gradient_accumulation_steps=2).train(2, batches)
    assert_equal(ours, theirs)


def test_a_closure_may_differentiate_twice_before_it_updates(tmp_path):
    class Halves(Net):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            optimizers["default"].zero_grad()
            for part in (slice(None, None, 2), slice(1, None, 2)):
                loss = losses["mse"](model(data_dict["data"][part])["pred"], data_dict["label"][part]) / 2
                with optimizers["default"].scale_loss(loss) as scaled:
                    scaled.backward()
            optimizers["default"].step()
            return {"mse": loss.detach()}, {}

    ours, theirs = build(Halves), build()
    batches = batches_of(4, 4, 8)
    trainer_of(ours, tmp_path / "ours", gradient_accumulation_steps=2).train(2, batches)
    trainer_of(theirs, tmp_path / "theirs", gradient_accumulation_steps=2).train(2, batches)
    assert_close(ours, theirs)


@pytest.mark.parametrize("steps", [0, -1, 1.5, "2"])
def test_an_impossible_number_of_accumulation_steps_is_refused(steps, tmp_path):
    with pytest.raises(ConfigError, match=r"gradient_accumulation_steps must be an integer of at least 1 \(batch\)"):
        trainer_of(build(), tmp_path, gradient_accumulation_steps=steps)


# ---- clipping


@pytest.mark.parametrize("precision", [None, "bf16", "fp16"])
@pytest.mark.parametrize("cls", [Net, HandWritten])
def test_clip_norm_is_torch_s_clipping_of_the_unscaled_gradients(cls, precision, tmp_path):
    network, norms = build(cls), []
    layers = copy.deepcopy(network.layers)

    def clip(layers):
        norms.append(float(torch.nn.utils.clip_grad_norm_(layers.parameters(), 0.3)))

    batches = batches_of(4, 4, 2, scale=3.0)
    trainer_of(network, tmp_path, gradient_clip_norm=0.3, mixed_precision=precision or False).train(2, batches)
    train_by_hand(layers, [batches] * 2, clip, precision=precision)
    assert_equal(network.layers, layers)
    assert max(norms) > 0.3


@pytest.mark.parametrize("precision", [None, "bf16", "fp16"])
def test_clip_value_is_torch_s_clipping_of_the_unscaled_gradients(precision, tmp_path):
    network, largest = build(), []
    layers = copy.deepcopy(network.layers)

    def clip(layers):
        largest.append(max(float(parameter.grad.abs().max()) for parameter in layers.parameters()))
        torch.nn.utils.clip_grad_value_(layers.parameters(), 0.05)

    batches = batches_of(4, 4, 2, scale=3.0)
    trainer_of(network, tmp_path, gradient_clip_value=0.05, mixed_precision=precision or False).train(2, batches)
    train_by_hand(layers, [batches] * 2, clip, precision=precision)
    assert_equal(network.layers, layers)
    assert max(largest) > 0.05


@pytest.mark.parametrize("name", ["gradient_clip_norm", "gradient_clip_value"])
@pytest.mark.parametrize("value", [0, -1.0, math.nan])
def test_an_impossible_clipping_is_refused(name, value, tmp_path):
    with pytest.raises(ConfigError, match=rf"{name} must be above 0 \(or None for no clipping\), got {value}"):
        trainer_of(build(), tmp_path, **{name: value})


# ---- losses that are not finite


@pytest.mark.parametrize("precision", [False, "bf16", "fp16"])
@pytest.mark.parametrize("cls", [Net, HandWritten])
def test_skip_leaves_exactly_the_bad_update_out(cls, precision, tmp_path):
    """Momentum and weight decay would move the weights even with a gradient of zero."""
    batches = batches_of(4, 4, 4, 2)
    network = build(cls)
    layers = copy.deepcopy(network.layers)
    trainer = trainer_of(network, tmp_path, nonfinite="skip", mixed_precision=precision)
    trainer.train(2, [batches[0], spoiled(batches[1]), *batches[2:]])
    train_by_hand(layers, [[batches[0], *batches[2:]]] * 2, precision=precision or None)
    assert_equal(network.layers, layers)
    assert trainer.optimizers["default"].num_updates == 6
    assert math.isfinite(trainer.state.history[-1]["mse"])


@pytest.mark.parametrize("as_data", [list, Stream])
@pytest.mark.parametrize("bad", [0, 1, 2, 3, 4])
def test_skip_leaves_exactly_the_bad_batch_out_of_an_accumulated_update(bad, as_data, tmp_path):
    """Groups of two batches: (0, 1), (2, 3), (4): the other batch of the group still counts in full."""
    batches = batches_of(4, 3, 5, 4, 2)
    network = build()
    layers = copy.deepcopy(network.layers)
    trainer = trainer_of(network, tmp_path, nonfinite="skip", gradient_accumulation_steps=2)
    trainer.train(2, as_data([spoiled(batch) if number == bad else batch for number, batch in enumerate(batches)]))
    groups = [[batches[i] for i in group if i != bad] for group in ((0, 1), (2, 3), (4,))]
    train_by_hand(layers, [[joined(*group) for group in groups if group]] * 2)
    assert_close(network.layers, layers)


def test_skip_leaves_a_whole_group_of_bad_batches_out(tmp_path):
    batches = batches_of(4, 3, 5, 4)
    network = build()
    layers = copy.deepcopy(network.layers)
    trainer = trainer_of(network, tmp_path, nonfinite="skip", gradient_accumulation_steps=2)
    trainer.train(2, [spoiled(batches[0]), spoiled(batches[1]), *batches[2:]])
    train_by_hand(layers, [[joined(*batches[2:])]] * 2)
    assert_close(network.layers, layers)
    assert trainer.optimizers["default"].num_updates == 2


@pytest.mark.parametrize("steps", [1, 2])
def test_skip_leaves_an_update_out_whose_second_loss_is_bad(steps, tmp_path):
    """A closure that differentiates twice: what the first loss brought is left out as well."""

    class Halves(Net):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            optimizers["default"].zero_grad()
            for part in (slice(0, 1), slice(1, None)):
                loss = losses["mse"](model(data_dict["data"][part])["pred"], data_dict["label"][part])
                with optimizers["default"].scale_loss(loss) as scaled:
                    scaled.backward()
            optimizers["default"].step()
            return {"mse": loss.detach()}, {}

    batches = batches_of(4, 4, 4)
    bad = copy.deepcopy(batches[1])
    bad["label"][1:] = np.inf
    ours, theirs = build(Halves), build(Halves)
    settings = {"nonfinite": "skip", "gradient_accumulation_steps": steps}
    trainer_of(ours, tmp_path / "ours", **settings).train(1, [batches[0], bad, batches[2]])
    # without the bad batch the groups are (0,) and (2,)
    trainer_of(theirs, tmp_path / "theirs").train(1, [batches[0], batches[2]])
    assert_close(ours, theirs)


def test_skip_leaves_only_the_update_of_the_optimizer_with_the_bad_loss_out(tmp_path):
    class Pair(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.gen, self.discr = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)

        def forward(self, x):
            return {"pred": self.gen(x)}

        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            values = {}
            for name in ("gen", "discr"):
                loss = losses["mse"](getattr(model, name)(data_dict["data"]), data_dict[name])
                optimizers[name].zero_grad()
                with optimizers[name].scale_loss(loss) as scaled:
                    scaled.backward()
                optimizers[name].step()
                values[name] = loss.detach()
            return values, {}

    (batch,) = batches_of(4)
    batch = {"data": batch["data"], "gen": batch["label"], "discr": np.full_like(batch["label"], np.inf)}
    network = build(Pair)
    before = copy.deepcopy(network)
    trainer_of(network, tmp_path, nonfinite="skip", optim_fn=create_optims_gan_default_pytorch).train(1, [batch])
    assert_equal(network.discr, before.discr)
    assert not torch.equal(network.gen.weight, before.gen.weight)


@pytest.mark.parametrize("log_freq", [1, 2, 50])
def test_raise_names_epoch_step_and_loss_and_keeps_the_last_good_checkpoint(log_freq, tmp_path):
    batches = batches_of(4, 4, 4, 2)
    epochs = iter([batches, [*batches[:2], spoiled(batches[2]), batches[3]]])

    class Changing:
        def __iter__(self):
            return iter(next(epochs))

    trainer = trainer_of(build(), tmp_path, save_freq=1, log_freq=log_freq)
    with pytest.raises(NonFiniteLossError, match=r"loss 'mse' became nan in epoch 2, step 3 .*nonfinite='skip'"):
        trainer.train(3, Changing())
    assert [path.name for path in sorted((tmp_path / "checkpoints").iterdir())] == [
        "checkpoint_epoch_1.pt",
        "checkpoint_last.pt",
    ]
    again = trainer_of(build(seed=5), tmp_path)
    assert again.state.epoch == 1
    assert all(torch.isfinite(parameter).all() for parameter in again.network.parameters())


def test_ignore_goes_on(tmp_path):
    batches = batches_of(4, 4)
    trainer = trainer_of(build(), tmp_path, nonfinite="ignore")
    trainer.train(1, [batches[0], spoiled(batches[1])])
    assert math.isnan(trainer.state.history[-1]["mse"])
    assert all(torch.isnan(parameter).any() for parameter in trainer.network.parameters())
