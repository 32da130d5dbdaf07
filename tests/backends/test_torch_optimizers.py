"""What lies between gradients and update in PyTorch: accumulation, clipping, leaving out."""

import copy
import io
import itertools
import math

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError, ConfigError, NonFiniteLossError

torch = pytest.importorskip("torch")
from torch_updates import MSE, SCALE, HandWritten, Net, assert_equal, batches_of, build, compute, optimizers_of  # noqa: E402

from delira.backends.torch.backend import BACKEND  # noqa: E402
from delira.backends.torch.schedules import TorchSchedulerCallback  # noqa: E402
from delira.contract import UpdateConfig  # noqa: E402
from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import PyTorchNetworkTrainer, create_optims_gan_default_pytorch  # noqa: E402


class Stream:
    """Batches whose number is not known; they can be read again and again."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


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


def assert_close(left, right, **tolerance):
    for ours, theirs in zip(left.parameters(), right.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, **tolerance)


@pytest.mark.sampled("pairs")
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
        "checkpoint_previous.pt",
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


class Pair(AbstractPyTorchNetwork):
    """Two networks, each with its own optimizer and loss; ``discr`` never sees what ``gen`` computes."""

    def __init__(self):
        super().__init__()
        self.gen, self.discr = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)

    def forward(self, x):
        return {"pred": self.gen(x)}

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, **kwargs):
        for name in ("gen", "discr"):
            loss = losses["mse"](getattr(model, name)(data_dict["data"]), data_dict["label"])
            optimizers[name].zero_grad()
            with optimizers[name].scale_loss(loss) as scaled:
                scaled.backward()
            optimizers[name].step()
        return {}, {}


class SteepAtZero(HandWritten):
    """Adds the length of the predictions that ``"marked"`` names: where there are none, its gradient is 0/0."""

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, **kwargs):
        pred = model(data_dict["data"])["pred"]
        marked = data_dict.get("marked", torch.ones(()))
        loss = losses["mse"](pred, data_dict["label"]) + 0.1 * (pred * marked).pow(2).sum().sqrt()
        optimizers["default"].zero_grad()
        with optimizers["default"].scale_loss(loss) as scaled:
            scaled.backward()
        optimizers["default"].step()
        assert torch.isfinite(loss)
        return {}, {}


def steep(batch):
    """The batch with a finite loss whose gradient is not a number."""
    return {**batch, "marked": np.zeros_like(batch["label"])}


def distance(left, right):
    """2-norm of the difference of all weights."""
    pairs = zip(left.parameters(), right.parameters(), strict=True)
    return math.sqrt(sum(float((ours - theirs).detach().square().sum()) for ours, theirs in pairs))


def split(batch, *sizes):
    """The batch in parts of these sizes."""
    ends = list(itertools.accumulate(sizes))
    assert ends[-1] == len(batch["data"])
    return [
        {name: values[end - size : end] for name, values in batch.items()}
        for size, end in zip(sizes, ends, strict=True)
    ]


def compute_in_parts(network, optimizers, batch, *sizes, is_last=False):
    parts = split(batch, *sizes)
    for number, part in enumerate(parts, 1):
        compute(network, optimizers, part, is_last, part=number < len(parts))


PARTS = [(8,), (4, 4), (1, 7), (5, 1, 2), (1,) * 8]
UPDATES = [
    {},
    {"accumulation_steps": 2},
    {"clip_norm": 0.2},
    {"clip_value": 0.05, "accumulation_steps": 3},
    {"skip_nonfinite": True},
    {"precision": "bf16"},
    {"precision": "fp16", "accumulation_steps": 2, "clip_norm": 0.2},
]


@pytest.mark.parametrize("sizes", PARTS, ids=str)
@pytest.mark.parametrize("update", UPDATES, ids=str)
def test_a_batch_in_parts_gives_the_update_of_the_whole(update, sizes):
    ours, theirs = build(HandWritten), build(HandWritten)
    mine, other = optimizers_of(ours, in_parts=True, **update), optimizers_of(theirs, **update)
    batches = batches_of(8, 3, 8, 8, 5)
    start = copy.deepcopy(theirs)
    for number, batch in enumerate(batches, 1):
        is_last = number == len(batches)
        compute_in_parts(ours, mine, batch, *(sizes if len(batch["data"]) == 8 else (2, len(batch["data"]) - 2)),
                         is_last=is_last)  # fmt: skip
        compute(theirs, other, batch, is_last)
        assert mine["default"].num_updates == other["default"].num_updates
    tolerance = 0.05 if "precision" in update else 1e-5
    assert distance(ours, theirs) <= tolerance * distance(start, theirs)


def test_parts_are_weighted_by_their_samples():
    """Large numbers, so that equal weights would be far off."""
    batch = joined(batches_of(7)[0], batches_of(1, seed=2, scale=30.0)[0])
    ours, theirs = build(HandWritten), build(HandWritten)
    rate = {"lr": 1e-3}
    compute_in_parts(ours, optimizers_of(ours, params=rate, in_parts=True), batch, 7, 1)
    compute(theirs, optimizers_of(theirs, params=rate), batch)
    assert_close(ours, theirs)


@pytest.mark.parametrize("update", [{}, {"accumulation_steps": 2}, {"clip_norm": 0.2}], ids=str)
def test_two_optimizers_take_a_batch_in_parts(update):
    ours, theirs = build(Pair), build(Pair)
    mine = optimizers_of(ours, create_optims_gan_default_pytorch, in_parts=True, **update)
    other = optimizers_of(theirs, create_optims_gan_default_pytorch, **update)
    for number, batch in enumerate(batches_of(8, 8, 8), 1):
        compute_in_parts(ours, mine, batch, 5, 1, 2, is_last=number == 3)
        compute(theirs, other, batch, number == 3)
    assert_close(ours, theirs)
    assert {name: o.num_updates for name, o in mine.items()} == {name: o.num_updates for name, o in other.items()}


def test_whole_batches_are_computed_with_the_same_bits_whether_or_not_others_come_in_parts():
    ours, theirs = build(HandWritten), build(HandWritten)
    mine, other = optimizers_of(ours, in_parts=True), optimizers_of(theirs)
    for batch in batches_of(8, 3, 8):
        compute(ours, mine, batch)
        compute(theirs, other, batch)
    assert other["default"].is_plain
    assert_equal(ours, theirs)
    assert mine["default"].num_updates == other["default"].num_updates == 3


@pytest.mark.parametrize("n_before", [0, 1, 2])
@pytest.mark.parametrize("update", [{}, {"accumulation_steps": 2}, {"accumulation_steps": 3}], ids=str)
def test_discarded_parts_leave_no_trace(update, n_before):
    """Bit for bit as if they had never been tried, also in the middle of a group."""
    ours, theirs = build(HandWritten), build(HandWritten)
    update = {"in_parts": True, **update}
    mine, other = optimizers_of(ours, **update), optimizers_of(theirs, **update)
    *before, batch = batches_of(4, 5, 8)[:n_before] + batches_of(8, seed=9)
    for earlier in before:
        compute(ours, mine, earlier)
        compute(theirs, other, earlier)
    for part in split(spoiled(batch), 6, 1, 1)[:2]:
        compute(ours, mine, part, part=True)
    assert mine["default"].discard_parts()
    compute_in_parts(ours, mine, batch, 2, 6)
    compute_in_parts(theirs, other, batch, 2, 6)
    for optimizers in (mine, other):
        optimizers["default"].flush()
    assert_equal(ours, theirs)
    assert mine["default"].num_updates == other["default"].num_updates


@pytest.mark.parametrize("update", [{}, {"accumulation_steps": 2}], ids=str)
def test_a_batch_that_is_part_of_an_update_or_group_cannot_be_repeated(update):
    network = build(HandWritten)
    optimizers = optimizers_of(network, in_parts=True, **update)
    (batch,) = batches_of(4)
    with BACKEND.optimizers.scope(optimizers, 4, False):
        assert optimizers["default"].discard_parts()  # the memory ran out before the update
    compute(network, optimizers, batch)
    assert not optimizers["default"].discard_parts()
    with BACKEND.optimizers.scope(optimizers, 4, False):
        assert optimizers["default"].discard_parts()


def test_discarding_frees_the_gradients():
    network = build(HandWritten)
    optimizers = optimizers_of(network, in_parts=True)
    MSE(network(torch.ones(2, 3))["pred"], torch.ones(2, 1)).backward()
    optimizers["default"].discard_parts()
    assert all(parameter.grad is None for parameter in network.parameters())


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("steps", [1, 2])
def test_skip_leaves_a_batch_out_if_one_of_its_parts_is_bad(steps, bad):
    ours, theirs = build(HandWritten), build(HandWritten)
    update = {"skip_nonfinite": True, "accumulation_steps": steps}
    mine, other = optimizers_of(ours, in_parts=True, **update), optimizers_of(theirs, **update)
    batches = batches_of(4, 6, 4)
    batches[1]["label"][2 * bad] = np.inf
    for number, batch in enumerate(batches):
        if number == 1:
            compute_in_parts(ours, mine, batch, 2, 2, 2)
        else:
            compute(ours, mine, batch, is_last=number == 2)
        compute(theirs, other, batch, is_last=number == 2)
    assert_equal(ours, theirs)
    assert mine["default"].num_updates == other["default"].num_updates == 2
    assert mine["default"].num_skipped == other["default"].num_skipped == 1


def test_a_closure_that_updates_twice_is_refused_in_parts():
    class Twice(HandWritten):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            HandWritten.closure(model, data_dict, optimizers, losses)
            return HandWritten.closure(model, data_dict, optimizers, losses)

    network = build(Twice)
    optimizers, (batch,) = optimizers_of(network, in_parts=True), batches_of(4)
    compute(network, optimizers, batch)
    with pytest.raises(ConfigError, match=r"updates the same parameters twice in one batch.* smaller batch_size"):
        compute(network, optimizers, batch, part=True)


def test_an_optimizer_that_evaluates_the_loss_itself_is_refused_in_parts():
    class Inner(Net):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            def evaluate():
                optimizers["default"].zero_grad()
                loss = losses["mse"](model(data_dict["data"])["pred"], data_dict["label"])
                loss.backward()
                return loss

            optimizers["default"].step(evaluate)
            return {}, {}

    network = build(Inner)
    (batch,) = batches_of(4)
    compute(network, optimizers_of(network, None, torch.optim.LBFGS, {"lr": 0.1}), batch)
    optimizers = optimizers_of(network, None, torch.optim.LBFGS, {"lr": 0.1}, in_parts=True)
    with pytest.raises(ConfigError, match=r"evaluates the loss itself \(LBFGS\) works with neither .* micro_batches"):
        compute(network, optimizers, batch, part=True)


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("precision", ["32", "bf16"])
@pytest.mark.parametrize("steps", [1, 2])
def test_skip_leaves_a_batch_out_whose_gradients_are_bad(steps, precision, bad):
    """The loss is finite. The other batches of the group count in full."""
    ours, theirs = build(SteepAtZero), build(SteepAtZero)
    update = {"accumulation_steps": steps, "precision": precision}
    mine, other = optimizers_of(ours, skip_nonfinite=True, **update), optimizers_of(theirs, **update)
    batches = batches_of(4, 3, 5)
    for number, batch in enumerate(batches):
        compute(ours, mine, steep(batch) if number == bad else batch, number == 2)
    groups = [[0], [1], [2]] if steps == 1 else [[0, 1], [2]]
    for group in groups:
        kept = [batches[number] for number in group if number != bad]
        for number, batch in enumerate(kept, 1):
            compute(theirs, other, batch, number == len(kept))
    assert_close(ours, theirs, **({} if precision == "32" else {"rtol": 1e-2, "atol": 2e-3}))
    assert mine["default"].num_skipped == 1
    assert mine["default"].num_updates == other["default"].num_updates


def test_of_two_updates_in_one_batch_only_the_bad_one_is_left_out():
    class Twice(HandWritten):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            for label in (data_dict["first"], data_dict["label"]):
                HandWritten.closure(model, {**data_dict, "label": label}, optimizers, losses)
            return {}, {}

    ours, theirs = build(Twice), build(HandWritten)
    optimizers = optimizers_of(ours, skip_nonfinite=True)
    for batch in batches_of(4, 4):
        compute(ours, optimizers, {**batch, "first": np.full_like(batch["label"], np.nan)})
    train_by_hand(theirs.layers, [batches_of(4, 4)])
    assert_equal(ours, theirs)
    assert (optimizers["default"].num_updates, optimizers["default"].num_skipped) == (2, 2)


def test_in_fp16_infinite_gradients_lower_the_scale():
    network = build(SteepAtZero)
    optimizers = optimizers_of(network, skip_nonfinite=True, precision="fp16", accumulation_steps=2)
    before = copy.deepcopy(network)
    for number, batch in enumerate(batches_of(4, 4)):
        compute(network, optimizers, steep(batch) if number else batch)
    assert_equal(network, before)
    assert optimizers["default"].scaler.get_scale() == SCALE / 2
    assert (optimizers["default"].num_updates, optimizers["default"].num_skipped) == (0, 2)


def stored(network, optimizers):
    """What a checkpoint keeps of a training, written and read again."""
    tree = {
        "model": network.state_dict(),
        "optimizer": {name: o.state_dict() for name, o in optimizers.items()},
        "scaler": {name: o.scaler.state_dict() for name, o in optimizers.items()},
        "pending": {name: o.pending_state() for name, o in optimizers.items()},
    }
    file = io.BytesIO()
    torch.save(tree, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def restored(tree, cls, builder=None, **update):
    """A training in a new process."""
    network = build(cls, seed=5)
    optimizers = optimizers_of(network, builder, **update)
    network.load_state_dict(tree["model"])
    for name, optimizer in optimizers.items():
        optimizer.load_state_dict(tree["optimizer"][name])
        optimizer.scaler.load_state_dict(tree["scaler"][name])
        optimizer.load_pending_state(tree["pending"][name])
    return network, optimizers


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("stop", range(1, 7))
@pytest.mark.parametrize(
    "update",
    [
        {"accumulation_steps": 3},
        {"accumulation_steps": 3, "skip_nonfinite": True, "clip_norm": 0.2},
        {"accumulation_steps": 2, "precision": "fp16"},
        {"accumulation_steps": 4, "precision": "bf16"},
        {},
    ],
    ids=str,
)
@pytest.mark.parametrize("cls", [HandWritten, Pair])
def test_a_training_continues_inside_a_group_bit_for_bit(cls, update, stop):
    builder = create_optims_gan_default_pytorch if cls is Pair else None
    network = build(cls)
    optimizers = optimizers_of(network, builder, **update)
    batches = batches_of(4, 3, 5, 8, 2, 4, 1)
    if "skip_nonfinite" in update:
        batches[1] = spoiled(batches[1])
    for number, batch in enumerate(batches, 1):
        compute(network, optimizers, batch, number == len(batches))
        if number == stop:
            again, its_optimizers = restored(stored(network, optimizers), cls, builder, **update)
        if number > stop:
            compute(again, its_optimizers, batch, number == len(batches))
    assert_equal(network, again)
    for name, optimizer in optimizers.items():
        assert its_optimizers[name].pending_state() == optimizer.pending_state()
        assert "sums" not in optimizer.pending_state()
    assert any(optimizer.num_updates for optimizer in optimizers.values())


def test_continuing_does_not_change_what_was_read():
    network = build(HandWritten)
    optimizers = optimizers_of(network, accumulation_steps=3)
    batches = batches_of(4, 4, 4)
    compute(network, optimizers, batches[0])
    tree = stored(network, optimizers)
    sums = copy.deepcopy(tree["pending"]["default"]["sums"])
    again, its_optimizers = restored(tree, HandWritten, accumulation_steps=3)
    for batch in batches[1:]:
        compute(again, its_optimizers, batch)
    assert sums.keys() == tree["pending"]["default"]["sums"].keys() == {0, 1, 2, 3}
    assert all(torch.equal(sums[number], tree["pending"]["default"]["sums"][number]) for number in sums)


def test_a_state_of_the_optimizer_alone_forgets_the_group():
    network, other = build(HandWritten), build(HandWritten)
    optimizers, others = optimizers_of(network, accumulation_steps=2), optimizers_of(other, accumulation_steps=2)
    first, *batches = batches_of(4, 4, 3)
    compute(network, optimizers, first)
    optimizers["default"].load_state_dict(optimizers["default"].state_dict())
    for batch in batches:
        compute(network, optimizers, batch)
        compute(other, others, batch)
    assert_equal(network, other)


@pytest.mark.parametrize(
    ("number", "shape", "found"), [(0, (5, 4), r"the parameter is \(5, 3\)"), (4, (2,), "the parameter is missing")]
)
def test_a_group_of_another_network_is_refused_and_nothing_changes(number, shape, found):
    network = build(HandWritten)
    optimizer = optimizers_of(network, accumulation_steps=3)["default"]
    compute(network, {"default": optimizer}, batches_of(4)[0])
    before = optimizer.pending_state()
    state = {**before, "num_updates": 9, "sums": {1: torch.zeros(5), number: torch.zeros(shape)}}
    with pytest.raises(CheckpointError, match=rf"gradient of parameter {number} has shape .*, but {found}"):
        optimizer.load_pending_state(state)
    assert optimizer.pending_state().keys() == before.keys()
    assert optimizer.num_updates == 0
    assert all(optimizer.pending_state()["sums"][i] is before["sums"][i] for i in before["sums"])


_lr = torch.optim.lr_scheduler


def sequence(optimizer):
    parts = [_lr.LinearLR(optimizer, 0.2, total_iters=3), _lr.CosineAnnealingLR(optimizer, 6, eta_min=0.01)]
    return _lr.SequentialLR(optimizer, parts, milestones=[3])


def chain(optimizer):
    return _lr.ChainedScheduler([_lr.ConstantLR(optimizer, 0.5, total_iters=4), _lr.ExponentialLR(optimizer, 0.9)])


SCHEDULES = {
    "step": (_lr.StepLR, {"step_size": 2, "gamma": 0.3}),
    "steps": (_lr.MultiStepLR, {"milestones": [1, 4, 7], "gamma": 0.5}),
    "exponential": (_lr.ExponentialLR, {"gamma": 0.7}),
    "cosine": (_lr.CosineAnnealingLR, {"T_max": 4, "eta_min": 0.01}),
    "lambda": (_lr.LambdaLR, {"lr_lambda": lambda epoch: 1 / (1 + epoch)}),
    "plateau": (_lr.ReduceLROnPlateau, {"factor": 0.2, "patience": 0, "min_lr": 0.004}),
    "plateau of groups": (_lr.ReduceLROnPlateau, {"factor": 0.2, "patience": 0, "min_lr": [0.004, 0.03]}),
    "one cycle": (_lr.OneCycleLR, {"max_lr": [0.3, 0.9], "total_steps": 12}),
    "one cycle of three phases": (_lr.OneCycleLR, {"max_lr": 0.3, "total_steps": 12, "three_phase": True}),
    "cyclic": (_lr.CyclicLR, {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 3}),
    "restarts": (_lr.CosineAnnealingWarmRestarts, {"T_0": 3, "eta_min": 0.01}),
    "linear": (_lr.LinearLR, {"start_factor": 0.2, "total_iters": 6}),
    "constant": (_lr.ConstantLR, {"factor": 0.2, "total_iters": 6}),
    "polynomial": (_lr.PolynomialLR, {"total_iters": 8, "power": 2.0}),
    "multiplicative": (_lr.MultiplicativeLR, {"lr_lambda": lambda epoch: 0.8}),
    "sequence": (sequence, {}),
    "chain": (chain, {}),
}


def scheduled(name):
    """Optimizers of two groups and their schedule."""
    network = build(Pair)

    def builder(model, optimizer_cls, **params):
        groups = [{"params": list(model.gen.parameters())}, {"params": list(model.discr.parameters()), "lr": 0.3}]
        return {"default": optimizer_cls(groups, **params)}

    optimizers = optimizers_of(network, builder, params={"lr": 0.1, "momentum": 0.9})
    cls, params = SCHEDULES[name]
    return optimizers, TorchSchedulerCallback(optimizers["default"], cls, **params)


def follow(optimizers, schedule, number):
    """Rates of the next ``number`` steps, shape (number, 2)."""
    rates = []
    for _ in range(number):
        optimizers["default"].step()
        schedule.scheduler.step(*([1.0] if "metrics" in schedule.scheduler.step.__code__.co_varnames else []))
        rates.append([group["lr"] for group in optimizers["default"].param_groups])
    return np.array(rates)


@pytest.mark.filterwarnings("ignore:The epoch parameter in `scheduler.step:UserWarning")
@pytest.mark.parametrize("moment", [0, 2, 3, 5])
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_continues_with_scaled_rates(name, moment):
    ours, theirs = scheduled(name), scheduled(name)
    before = follow(*theirs, moment)
    assert np.array_equal(follow(*ours, moment), before)
    BACKEND.optimizers.scale_rates(ours[0], 0.25)
    ours[1].scale_rates(0.25)
    assert ours[1].scheduler.get_last_lr() == [group["lr"] for group in ours[0]["default"].param_groups]
    rates = follow(*theirs, 11 - moment)
    np.testing.assert_allclose(follow(*ours, 11 - moment), 0.25 * rates, rtol=1e-6)
    assert len(np.unique([*before, *rates])) > 2  # the schedule did something


@pytest.mark.filterwarnings("ignore:The epoch parameter in `scheduler.step:UserWarning")
@pytest.mark.parametrize("name", SCHEDULES)
def test_scaled_rates_are_kept_in_checkpoints(name):
    ours, theirs = scheduled(name), scheduled(name)
    follow(*ours, 2)
    BACKEND.optimizers.scale_rates(ours[0], 0.25)
    ours[1].scale_rates(0.25)
    theirs[0]["default"].load_state_dict(copy.deepcopy(ours[0]["default"].state_dict()))
    theirs[1].load_state_dict(copy.deepcopy(ours[1].state_dict()))
    assert np.array_equal(follow(*ours, 9), follow(*theirs, 9))


def test_a_plateau_that_learns_its_direction_keeps_its_scaled_floor():
    class Trainer:
        score_key, score_mode = "accuracy", "highest"

    optimizers, schedule = scheduled("plateau")
    BACKEND.optimizers.scale_rates(optimizers, 0.25)
    schedule.scale_rates(0.25)
    schedule.at_training_begin(Trainer())
    assert schedule.scheduler.mode == "max"
    assert follow(optimizers, schedule, 11)[-1] == pytest.approx([0.001, 0.001])


def test_rates_that_are_tensors_are_scaled_once():
    """Groups share the tensor of the default."""
    network = build(Pair)
    groups = [{"params": [parameter]} for parameter in network.parameters()]
    optimizer = torch.optim.Adam(groups, lr=torch.tensor(0.1), capturable=False, foreach=False)
    BACKEND.optimizers.scale_rates({"default": optimizer}, 0.5)
    assert [float(group["lr"]) for group in optimizer.param_groups] == pytest.approx([0.05] * 4)


class _Remembering(torch.optim.SGD):
    """Notes how often it was told to forget the gradients."""

    n_forgotten = 0

    def zero_grad(self, set_to_none=True):
        self.n_forgotten += 1
        super().zero_grad(set_to_none)


def _plain(cls):
    """An optimizer of one layer with gradients, as the trainer wraps it."""
    layer = torch.nn.Linear(2, 1)
    layer(torch.ones(1, 2)).sum().backward()
    return layer, BACKEND.optimizers.build(layer, None, cls, {"lr": 0.1}, UpdateConfig())["default"]


@pytest.mark.parametrize("cls", [torch.optim.SGD, _Remembering])
def test_gradients_are_forgotten_as_torch_does(cls):
    layer, optimizer = _plain(cls)
    optimizer.zero_grad(set_to_none=False)
    assert layer.weight.grad.tolist() == [[0.0, 0.0]]
    optimizer.zero_grad()
    assert layer.weight.grad is None is layer.bias.grad
    assert getattr(optimizer.optimizer, "n_forgotten", 2) == 2


def test_a_zero_grad_that_an_optimizer_was_given_later_is_called():
    layer, optimizer = _plain(torch.optim.SGD)
    called = []
    optimizer.optimizer.zero_grad = lambda set_to_none: called.append(set_to_none)
    optimizer.zero_grad()
    assert called == [True]
    assert layer.weight.grad is not None
