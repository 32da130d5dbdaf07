"""The step in PyTorch: the default closure and closures written by hand, in every number format."""

import copy

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, NetworkError

torch = pytest.importorskip("torch")

from delira.contract import StepHooks  # noqa: E402
from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import (  # noqa: E402
    PyTorchNetworkTrainer,
    create_optims_default_pytorch,
    create_optims_gan_default_pytorch,
)

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
PRECISIONS = (False, "bf16", "fp16")


class MLP(AbstractPyTorchNetwork):
    def __init__(self, n_hidden=8):
        super().__init__(n_hidden=n_hidden)
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, n_hidden), torch.nn.ReLU(), torch.nn.Linear(n_hidden, 3))

    def forward(self, x):
        return {"pred": self.layers(x)}


def by_hand(model, data_dict, optimizers, losses=None, **kwargs):
    """What a user writes: it knows nothing of number formats."""
    output = model(data_dict["data"])
    loss = losses["ce"](output["pred"], data_dict["label"])
    optimizers["default"].zero_grad()
    with optimizers["default"].scale_loss(loss) as scaled:
        scaled.backward()
    optimizers["default"].step()
    return {"ce": loss.detach()}, {"pred": output["pred"].detach()}


class HandWritten(MLP):
    closure = staticmethod(by_hand)


@pytest.fixture
def classes():
    """23 samples of 3 classes in batches of 8, 8 and 7."""
    rng = np.random.default_rng(3)
    arrays = {"data": rng.normal(size=(23, 4)).astype(np.float32), "label": rng.integers(0, 3, 23)}
    return BaseDataManager(arrays, batch_size=8)


def build(cls=MLP, seed=0, **kwargs):
    torch.manual_seed(seed)
    return cls(**kwargs)


def trainer_of(network, path, **settings):
    defaults = {
        "losses": {"ce": torch.nn.CrossEntropyLoss()},
        "optimizer_cls": torch.optim.Adam,
        "optimizer_params": {"lr": 1e-2},
        "logging_type": None,
        "verbose": False,
        "save_freq": None,
    }
    return PyTorchNetworkTrainer(network, path, **{**defaults, **settings})


def batches_of(manager, num_epochs, seed=0):
    """The batches that a trainer sees, as tensors."""
    for epoch in range(1, num_epochs + 1):
        for batch in manager.epoch(seed, 0, epoch, shuffle=True):
            yield {name: torch.as_tensor(array) for name, array in batch.items()}


def assert_equal_weights(left, right):
    for (name, ours), theirs in zip(left.state_dict().items(), right.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs), name


# ---- 32 bit


@pytest.mark.parametrize("cls", [MLP, HandWritten])
def test_a_closure_trains_bit_for_bit_like_a_loop_written_by_hand(cls, classes, tmp_path):
    network = build(cls)
    mirror, criterion = copy.deepcopy(network.layers), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(mirror.parameters(), lr=1e-2)
    trainer = trainer_of(network, tmp_path)
    trainer.train(4, classes)

    losses = []
    for batch in batches_of(classes, 4):
        loss = criterion(mirror(batch["data"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert_equal_weights(network.layers, mirror)
    last = np.average(losses[-3:], weights=[8, 8, 7])
    assert trainer.state.history[-1]["ce"] == pytest.approx(last, rel=1e-6)


def test_several_losses_are_added_and_reported_one_by_one(classes, tmp_path):
    network = build()
    mirror, criterion = copy.deepcopy(network.layers), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(mirror.parameters(), lr=1e-2)

    def size(prediction, target):
        return 0.1 * prediction.square().mean()

    trainer = trainer_of(network, tmp_path, losses={"ce": criterion, "size": size})
    trainer.train(2, classes)

    sizes = []
    for batch in batches_of(classes, 2):
        output = mirror(batch["data"])
        small = size(output, None)
        optimizer.zero_grad()
        (criterion(output, batch["label"]) + small).backward()
        optimizer.step()
        sizes.append(small.item())
    assert_equal_weights(network.layers, mirror)
    assert trainer.state.history[-1]["size"] == pytest.approx(np.average(sizes[-3:], weights=[8, 8, 7]), rel=1e-6)


def test_a_dropout_network_trains_the_same_twice(classes, tmp_path):
    class Dropping(MLP):
        def forward(self, x):
            return {"pred": torch.nn.functional.dropout(self.layers(x), 0.5, self.training)}

    networks = [build(Dropping), build(Dropping)]
    for number, network in enumerate(networks):
        torch.manual_seed(number)  # whatever the caller's generator is at
        trainer_of(network, tmp_path / str(number)).train(2, classes)
    assert_equal_weights(*networks)


def test_the_default_closure_without_optimizers_learns_nothing_and_names_its_values_for_validation(classes):
    network = build()
    before = copy.deepcopy(network.state_dict())
    batch = next(batches_of(classes, 1))
    metrics, losses, predictions = network.closure(
        network,
        batch,
        {},
        losses={"ce": torch.nn.CrossEntropyLoss()},
        metrics={"mean": lambda label, pred: pred.mean()},
    )
    assert list(losses) == ["val_ce"]
    assert list(metrics) == ["val_mean"]
    assert not predictions["pred"].requires_grad
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_the_default_closure_returns_values_that_hold_no_graph(classes, tmp_path):
    network = build()
    optimizers = trainer_of(network, tmp_path).optimizers
    batch = next(batches_of(classes, 1))
    _, losses, predictions = network.closure(network, batch, optimizers, losses={"ce": torch.nn.CrossEntropyLoss()})
    assert not losses["ce"].requires_grad
    assert not predictions["pred"].requires_grad


def test_hooks_run_inside_the_step_and_change_it(classes, tmp_path):
    network = build()
    mirror, criterion = copy.deepcopy(network.layers), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(mirror.parameters(), lr=0.1)
    trainer = trainer_of(network, tmp_path, optimizer_cls=torch.optim.SGD, optimizer_params={"lr": 0.1})

    def halve_inputs(step):
        step.batch = {**step.batch, "data": step.batch["data"] / 2}

    def shift(step):
        step.predictions = {"pred": step.predictions["pred"] + 1}

    def weigh(step):
        step.losses = {name: 3 * loss for name, loss in step.losses.items()}

    def freeze_first_layer(step):
        step.network.layers[0].weight.grad.zero_()

    trainer.hooks = StepHooks((halve_inputs,), (shift,), (weigh,), (freeze_first_layer,))
    trainer.train(1, classes)
    for batch in batches_of(classes, 1):
        optimizer.zero_grad()
        (3 * criterion(mirror(batch["data"] / 2) + 1, batch["label"])).backward()
        mirror[0].weight.grad.zero_()
        optimizer.step()
    assert_equal_weights(network.layers, mirror)


# ---- mixed precision


def train_in_half(mirror, batches, precision, lr=1e-2):
    """A loop of a user who writes mixed precision out."""
    optimizer, criterion = torch.optim.Adam(mirror.parameters(), lr=lr), torch.nn.CrossEntropyLoss()
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    for batch in batches:
        with torch.autocast("cpu", HALF[precision]):
            loss = criterion(mirror(batch["data"]), batch["label"])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


@pytest.mark.parametrize("precision", list(HALF))
@pytest.mark.parametrize("cls", [MLP, HandWritten])
def test_mixed_precision_trains_bit_for_bit_like_a_loop_written_by_hand(cls, precision, classes, tmp_path):
    network = build(cls)
    mirror = copy.deepcopy(network.layers)
    trainer_of(network, tmp_path, mixed_precision=precision).train(4, classes)
    train_in_half(mirror, batches_of(classes, 4), precision)
    assert_equal_weights(network.layers, mirror)
    assert all(parameter.dtype is torch.float32 for parameter in network.parameters())


def test_mixed_precision_true_takes_bfloat16_on_the_cpu(classes, tmp_path):
    ours, theirs = build(), build()
    trainer_of(ours, tmp_path / "true", mixed_precision=True).train(2, classes)
    trainer_of(theirs, tmp_path / "bf16", mixed_precision="bf16").train(2, classes)
    assert_equal_weights(ours, theirs)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_forward_pass_is_in_the_number_format_and_the_backward_pass_is_not(precision, classes, tmp_path):
    seen = []

    class Watching(MLP):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            output = model(data_dict["data"])
            forward = torch.is_autocast_enabled("cpu")
            loss = losses["ce"](output["pred"], data_dict["label"])
            optimizers["default"].zero_grad()
            with optimizers["default"].scale_loss(loss) as scaled:
                backward = torch.is_autocast_enabled("cpu")
                scaled.backward()
            optimizers["default"].step()
            seen.append((forward, backward, torch.is_autocast_enabled("cpu"), output["pred"].dtype))
            return {"ce": loss.detach()}, {"pred": output["pred"].detach()}

    trainer_of(build(Watching), tmp_path, mixed_precision=precision).train(1, classes)
    assert set(seen) == {(bool(precision), False, bool(precision), HALF.get(precision, torch.float32))}
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("precision", list(HALF))
def test_a_trained_network_predicts_and_validates_in_32_bit(precision, classes, tmp_path):
    def is_single(label, pred):
        return float(pred.dtype == np.float32)

    trainer = trainer_of(build(), tmp_path, mixed_precision=precision, val_metrics={"single": is_single})
    trainer.train(1, classes, classes)
    assert trainer.state.history[-1]["val_single"] == 1.0
    assert trainer.predict(next(iter(classes)))["pred"].dtype == np.float32


@pytest.mark.parametrize("precision", list(HALF))
def test_a_metric_over_the_training_epoch_gets_numpy_in_mixed_precision(precision, classes, tmp_path):
    def count(label, pred):
        assert isinstance(pred, np.ndarray)
        return float(len(pred))

    trainer = trainer_of(build(), tmp_path, mixed_precision=precision, metrics={"count": count})
    trainer.train(1, classes)
    assert trainer.state.history[-1]["count"] == 23


def test_the_loss_scale_of_fp16_survives_a_restart(classes, tmp_path):
    def trainer(name, **kwargs):
        made = trainer_of(build(**kwargs), tmp_path / name, mixed_precision="fp16")
        scaler = made.optimizers["default"].scaler
        if made.state.epoch == 0:
            scaler.load_state_dict(scaler.state_dict() | {"scale": 1024.0})
        return made

    unbroken = trainer("unbroken")
    unbroken.train(4, classes)
    trainer("broken").train(2, classes)
    again = trainer("broken", seed=9)
    assert again.optimizers["default"].scaler.get_scale() == 1024.0
    assert_equal_weights(again.train(4, classes), unbroken.network)
    ours, theirs = (made.optimizers["default"].scaler.state_dict() for made in (again, unbroken))
    assert ours == theirs


def test_an_update_that_fp16_leaves_out_is_not_counted(classes, tmp_path):
    network = build()
    trainer = trainer_of(network, tmp_path, mixed_precision="fp16")
    optimizer = trainer.optimizers["default"]
    optimizer.scaler.load_state_dict(optimizer.scaler.state_dict() | {"scale": 2.0**120})  # gradients overflow
    before = copy.deepcopy(network.state_dict())
    batch = next(batches_of(classes, 1))
    with trainer.backend.optimizers.scope(trainer.optimizers, 8, False):
        network.closure(network, batch, trainer.optimizers, losses=trainer.losses)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert optimizer.num_updates == 0


# ---- several optimizers


class GAN(AbstractPyTorchNetwork):
    """A generator that shall hit the labels, and a discriminator that tells its outputs from labels."""

    def __init__(self):
        super().__init__()
        self.gen = torch.nn.Linear(4, 3)
        self.discr = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

    def forward(self, x):
        fake = self.gen(x)
        return {"pred": fake, "score": self.discr(fake)}

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, **kwargs):
        gan, real = losses["gan"], data_dict["target"]
        discr_loss = discriminator_loss(model, data_dict["data"], real, gan)
        optimizers["discr"].zero_grad()
        with optimizers["discr"].scale_loss(discr_loss) as scaled:
            scaled.backward()
        optimizers["discr"].step()

        fake, gen_loss = generator_loss(model, data_dict["data"], gan)
        optimizers["gen"].zero_grad()
        with optimizers["gen"].scale_loss(gen_loss) as scaled:
            scaled.backward()
        optimizers["gen"].step()
        return {}, {"discr": discr_loss.detach(), "gen": gen_loss.detach()}, {"pred": fake.detach()}


def discriminator_loss(model, data, real, gan):
    on_real, on_fake = model.discr(real), model.discr(model.gen(data).detach())
    return gan(on_real, torch.ones_like(on_real)) + gan(on_fake, torch.zeros_like(on_fake))


def generator_loss(model, data, gan):
    fake = model.gen(data)
    score = model.discr(fake)  # of the discriminator as it is after its update
    return fake, gan(score, torch.ones_like(score))


@pytest.fixture
def pairs():
    """16 samples in batches of 8."""
    rng = np.random.default_rng(5)
    arrays = {"data": rng.normal(size=(16, 4)), "target": rng.normal(size=(16, 3)) + 2}
    return BaseDataManager({name: array.astype(np.float32) for name, array in arrays.items()}, batch_size=8)


def gan_trainer(network, path, **settings):
    defaults = {
        "losses": {"gan": torch.nn.functional.binary_cross_entropy_with_logits},
        "optim_fn": create_optims_gan_default_pytorch,
        "optimizer_params": {"lr": 0.05},
        "optimizer_cls": torch.optim.SGD,
    }
    return trainer_of(network, path, **{**defaults, **settings})


def train_gan_by_hand(model, batches, precision, lr=0.05):
    gan = torch.nn.functional.binary_cross_entropy_with_logits
    optimizers = {name: torch.optim.SGD(getattr(model, name).parameters(), lr=lr) for name in ("discr", "gen")}
    scalers = {name: torch.amp.GradScaler("cpu", enabled=precision == "fp16") for name in optimizers}

    def update(name, loss):
        optimizers[name].zero_grad()
        scalers[name].scale(loss).backward()
        scalers[name].step(optimizers[name])
        scalers[name].update()

    for batch in batches:
        # a scope for each forward pass: no cast of an old weight can be left
        with torch.autocast("cpu", HALF.get(precision), enabled=bool(precision)):
            loss = discriminator_loss(model, batch["data"], batch["target"], gan)
        update("discr", loss)
        with torch.autocast("cpu", HALF.get(precision), enabled=bool(precision)):
            _, loss = generator_loss(model, batch["data"], gan)
        update("gen", loss)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_two_optimizers_train_bit_for_bit_like_a_loop_written_by_hand(precision, pairs, tmp_path):
    """The second forward pass of a closure sees the weights that the first optimizer made, in every format."""
    network = build(GAN)
    mirror = copy.deepcopy(network)
    trainer = gan_trainer(network, tmp_path, mixed_precision=precision)
    trainer.train(3, pairs)
    train_gan_by_hand(mirror, batches_of(pairs, 3), precision)
    assert_equal_weights(network, mirror)
    assert set(trainer.optimizers) == {"gen", "discr"}
    assert {"gen", "discr", "lr_gen", "lr_discr"} <= set(trainer.state.history[-1])


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_second_forward_pass_sees_the_new_weights(precision, pairs, tmp_path):
    """Autocast caches the casts of weights for as long as its scope lasts."""
    outputs = []

    class Twice(GAN):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            result = GAN.closure(model, data_dict, optimizers, losses, **kwargs)
            with torch.autocast("cpu", HALF[precision]), torch.no_grad():
                inside = model(data_dict["data"])
            outputs.append((inside, copy.deepcopy(model), data_dict["data"]))
            return result

    gan_trainer(build(Twice), tmp_path, mixed_precision=precision).train(1, pairs)
    for inside, model, data in outputs:
        with torch.autocast("cpu", HALF[precision]), torch.no_grad():
            outside = model(data)
        assert torch.equal(inside["score"], outside["score"])


def test_both_optimizers_of_a_gan_accumulate_without_touching_each_other(pairs, tmp_path):
    """The generator's loss also leaves gradients on the discriminator, which are not the discriminator's."""
    ours, theirs = build(GAN), build(GAN)
    batches = [{name: array[:8] for name, array in pairs.dataset.data.items()}] * 2
    whole = [{name: np.concatenate([array[:8], array[:8]]) for name, array in pairs.dataset.data.items()}]
    # the discriminator alone learns from both batches at once; then the generator
    gan_trainer(ours, tmp_path / "ours", gradient_accumulation_steps=2).train(1, batches)

    class Discriminating(GAN):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            loss = discriminator_loss(model, data_dict["data"], data_dict["target"], losses["gan"])
            optimizers["discr"].zero_grad()
            loss.backward()
            optimizers["discr"].step()
            return {"discr": loss.detach()}, {}

    discriminating = build(Discriminating)
    gan_trainer(discriminating, tmp_path / "theirs").train(1, whole)
    for ours_, theirs_ in zip(ours.discr.parameters(), discriminating.discr.parameters(), strict=True):
        torch.testing.assert_close(ours_, theirs_)
    assert not torch.equal(ours.gen.weight, theirs.gen.weight)


def test_optim_fn_gets_the_network_the_class_and_its_parameters(classes, tmp_path):
    got = []

    def builder(model, optim_cls, **params):
        got.append((model, optim_cls, params))
        return create_optims_default_pytorch(model, optim_cls, **params)

    network = build()
    trainer = trainer_of(network, tmp_path, optim_fn=builder)
    assert got == [(network, torch.optim.Adam, {"lr": 1e-2})]
    assert list(trainer.optimizers) == ["default"]


def test_a_wrapped_optimizer_shows_the_attributes_of_its_own(tmp_path):
    network = build()
    optimizer = trainer_of(network, tmp_path).optimizers["default"]
    assert optimizer.param_groups[0]["lr"] == 1e-2
    assert set(optimizer.param_groups[0]["params"]) == set(network.parameters())
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = optimizer.no_such_thing


def test_an_optimizer_that_evaluates_the_loss_itself_works_in_a_closure_written_by_hand(classes, tmp_path):
    class Newton(MLP):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            def evaluate():
                optimizers["default"].zero_grad()
                loss = losses["ce"](model(data_dict["data"])["pred"], data_dict["label"])
                loss.backward()
                return loss

            loss = optimizers["default"].step(evaluate)
            return {"ce": loss.detach()}, {}

    settings = {"optimizer_cls": torch.optim.LBFGS, "optimizer_params": {"lr": 0.5}}
    network = build(Newton)
    mirror, criterion = copy.deepcopy(network.layers), torch.nn.CrossEntropyLoss()
    trainer_of(network, tmp_path / "plain", **settings).train(1, classes)
    optimizer = torch.optim.LBFGS(mirror.parameters(), lr=0.5)
    for batch in batches_of(classes, 1):

        def evaluate(batch=batch):
            optimizer.zero_grad()
            loss = criterion(mirror(batch["data"]), batch["label"])
            loss.backward()
            return loss

        optimizer.step(evaluate)
    assert_equal_weights(network.layers, mirror)
    with pytest.raises(ConfigError, match=r"evaluates the loss itself \(LBFGS\).*clipping"):
        trainer_of(build(Newton), tmp_path / "clipped", gradient_clip_norm=1.0, **settings).train(1, classes)


# ---- what is refused


def test_no_optimizer_is_refused_with_the_line_to_write(tmp_path):
    with pytest.raises(ConfigError, match=r"no optimizer is set; pass optimizer_cls=torch\.optim\.Adam"):
        trainer_of(build(), tmp_path, optimizer_cls=None)


@pytest.mark.parametrize("made", [None, {}])
def test_an_optim_fn_that_makes_no_dict_of_optimizers_is_refused(made, tmp_path):
    with pytest.raises(ConfigError, match="optim_fn returned"):
        trainer_of(build(), tmp_path, optim_fn=lambda model, optim_cls, **params: made)


def test_the_default_closure_without_an_optimizer_called_default_is_refused(classes, tmp_path):
    network = build()
    before = copy.deepcopy(network.state_dict())

    def builder(model, optim_cls, **params):
        return {"adam": optim_cls(model.parameters(), **params)}

    with pytest.raises((ConfigError, NetworkError), match=r"'default'.*'adam'"):
        trainer_of(network, tmp_path, optim_fn=builder).train(1, classes)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


@pytest.mark.parametrize("wrong", ["fp8", "O1", 16])
def test_an_unknown_number_format_is_refused(wrong, tmp_path):
    with pytest.raises(ConfigError, match=f"mixed_precision must be False, True, 'bf16' or 'fp16', got {wrong!r}"):
        trainer_of(build(), tmp_path, mixed_precision=wrong)
