"""The loss of an epoch is that of the whole data set, also where its mean counts weights, or leaves targets out."""

import functools

import numpy as np
import pytest

N, C = 23, 4


def problem(seed=3, pixels=(), ignored=()):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(N, C, *pixels)).astype(np.float32)
    label = rng.integers(0, C, size=(N, *pixels))
    for value in ignored:
        label[rng.random(label.shape) < 0.4] = value
    # something counts in every batch: where nothing does, there is no loss, and nothing to learn
    label[(slice(None), *[0] * len(pixels)) if pixels else slice(None, None, 7)] = 3
    return logits, label


def batches(logits, label, batch_size):
    return [
        {"data": logits[start : start + batch_size], "label": label[start : start + batch_size]}
        for start in range(0, N, batch_size)
    ]


def torch_losses():
    torch = pytest.importorskip("torch")
    weight = torch.tensor([0.1, 5.0, 1.0, 2.0])
    functional = torch.nn.functional
    log = torch.nn.LogSoftmax(1)
    return {
        "ignored by default": (torch.nn.CrossEntropyLoss(), (-100,)),
        "weights": (torch.nn.CrossEntropyLoss(weight=weight), ()),
        "weights and ignored": (torch.nn.CrossEntropyLoss(weight=weight, ignore_index=2), ()),
        "smoothing": (torch.nn.CrossEntropyLoss(weight=weight, ignore_index=1, label_smoothing=0.2), ()),
        "nll": (torch.nn.NLLLoss(weight=weight, ignore_index=-1), (-1,)),
        "function": (functional.cross_entropy, (-100,)),
        "partial": (functools.partial(functional.cross_entropy, weight=weight, ignore_index=0), ()),
        "plain": (torch.nn.CrossEntropyLoss(), ()),
        "mine": (lambda pred, target: functional.nll_loss(log(pred), target), ()),
    }


def torch_trainer(loss, **more):
    torch = pytest.importorskip("torch")
    from delira.models import AbstractPyTorchNetwork
    from delira.training import PyTorchNetworkTrainer

    class Net(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, x):
            return {"pred": x * self.scale}

    return PyTorchNetworkTrainer(
        Net(), None, losses={"loss": loss}, optimizer_cls=torch.optim.SGD, optimizer_params={"lr": 0.0},
        logging_type=None, verbose=False, **more,
    )  # fmt: skip


@pytest.mark.parametrize("batch_size", [1, 7, N])
@pytest.mark.parametrize("name", list(torch_losses()) if pytest.importorskip("torch") else [])
def test_losses_of_pytorch_are_those_of_the_whole_data_set(name, batch_size):
    torch = pytest.importorskip("torch")
    loss, ignored = torch_losses()[name]
    logits, label = problem(pixels=(5,), ignored=ignored)
    expected = float(loss(torch.from_numpy(logits), torch.from_numpy(label)))
    data = batches(logits, label, batch_size)
    trainer = torch_trainer(loss)
    trainer.train(1, data, data)
    record = trainer.state.history[0]
    assert record["loss"] == pytest.approx(expected, rel=1e-5)
    assert record["val_loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["weights and ignored", "ignored by default", "plain"])
@pytest.mark.parametrize("batch_size", [7, N])
def test_the_loss_of_batches_in_parts_is_that_of_the_whole_data_set(name, batch_size):
    torch = pytest.importorskip("torch")
    loss, ignored = torch_losses()[name]
    logits, label = problem(pixels=(5,), ignored=ignored)
    label[:, 0] = 3  # something counts in every part
    expected = float(loss(torch.from_numpy(logits), torch.from_numpy(label)))
    trainer = torch_trainer(loss, micro_batches=3)
    trainer.train(1, batches(logits, label, batch_size))
    assert trainer.state.history[0]["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of what torch.compile looks at
@pytest.mark.parametrize("compiles", ["module", "function", "partial", "in TorchScript"])
def test_compiled_losses_count_what_they_are_made_of_counts(compiles):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    logits, label = problem(ignored=(2,))
    x, y = torch.from_numpy(logits), torch.from_numpy(label)
    expected = float(functional.cross_entropy(x, y, ignore_index=2))
    if compiles == "in TorchScript":
        loss = torch.jit.freeze(torch.jit.script(torch.nn.CrossEntropyLoss(ignore_index=2)).eval())
    elif compiles == "module":
        loss = torch.compile(torch.nn.CrossEntropyLoss(ignore_index=2), backend="eager")
    elif compiles == "function":
        loss = functools.partial(torch.compile(functional.cross_entropy, backend="eager"), ignore_index=2)
    else:
        loss = torch.compile(functools.partial(functional.cross_entropy, ignore_index=2), backend="eager")
    trainer, data = torch_trainer(loss), batches(logits, label, 7)
    trainer.train(1, data, data)
    record = trainer.state.history[0]
    assert [record["loss"], record["val_loss"]] == pytest.approx([expected] * 2, rel=1e-5)


def test_a_validation_batch_in_which_nothing_counts_does_not_count():
    torch = pytest.importorskip("torch")
    logits, label = problem()
    label[7:14] = -100
    loss = torch.nn.CrossEntropyLoss()
    expected = float(loss(torch.from_numpy(logits), torch.from_numpy(label)))
    trainer = torch_trainer(loss)
    trainer.train(1, batches(*problem(), 7), batches(logits, label, 7))
    assert trainer.state.history[0]["val_loss"] == pytest.approx(expected, rel=1e-5)


def test_probabilities_as_targets_count_as_samples():
    torch = pytest.importorskip("torch")
    logits, label = problem()
    shares = np.eye(C, dtype=np.float32)[label]
    loss = torch.nn.CrossEntropyLoss(weight=torch.tensor([0.1, 5.0, 1.0, 2.0]))
    expected = float(loss(torch.from_numpy(logits), torch.from_numpy(shares)))
    trainer, data = torch_trainer(loss), batches(logits, shares, 7)
    trainer.train(1, data)
    assert trainer.state.history[0]["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kwargs", [{"weight": True}, {"pos_weight": True}, {}])
def test_binary_losses_are_means_over_samples_whatever_their_weights(kwargs):
    torch = pytest.importorskip("torch")
    logits, label = problem()
    target = (np.eye(C)[label]).astype(np.float32)
    loss = torch.nn.BCEWithLogitsLoss(**{name: torch.tensor([0.1, 5.0, 1.0, 2.0]) for name in kwargs})
    expected = float(loss(torch.from_numpy(logits), torch.from_numpy(target)))
    trainer, data = torch_trainer(loss), batches(logits, target, 7)
    trainer.train(1, data, data)
    record = trainer.state.history[0]
    assert [record["loss"], record["val_loss"]] == pytest.approx([expected] * 2, rel=1e-5)


@pytest.mark.parametrize("name", ["ignored by default", "weights and ignored", "smoothing"])
def test_the_loss_of_a_trial_is_that_of_the_whole_data_set(name):
    torch = pytest.importorskip("torch")
    from delira import Trial

    loss, ignored = torch_losses()[name]
    logits, label = problem(ignored=ignored)
    x, y = torch.from_numpy(logits), torch.from_numpy(label)
    expected = float(loss(x, y))

    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, x):
            return x * self.scale

    model = Scale()
    trial = Trial(model, torch.optim.SGD(model.parameters(), lr=0.0), loss, metrics=["loss"], verbose=0)
    record = trial.with_train_data(x, y, batch_size=7, shuffle=False).with_val_data(x, y, batch_size=7).run(1)[0]
    assert [record["loss"], record["val_loss"]] == pytest.approx([expected] * 2, rel=1e-5)


@pytest.mark.parametrize("ignored", [0, -1, None])
def test_losses_of_keras_are_those_of_the_whole_data_set(ignored):
    keras = pytest.importorskip("keras")
    pytest.importorskip("tensorflow")
    from delira.models import AbstractTfNetwork
    from delira.training import TfNetworkTrainer

    class Net(AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

        def call(self, x):
            return {"pred": x * self.scale}

    logits, label = problem(ignored=() if ignored is None else (ignored,))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=ignored)
    expected = float(loss(label, logits))
    trainer = TfNetworkTrainer(
        Net(), None, losses={"loss": loss}, optimizer_cls=keras.optimizers.SGD,
        optimizer_params={"learning_rate": 0.0}, logging_type=None, verbose=False, compiled=False,
    )  # fmt: skip
    data = batches(logits, label, 7)
    trainer.train(1, data, data)
    record = trainer.state.history[0]
    assert [record["loss"], record["val_loss"]] == pytest.approx([expected] * 2, rel=1e-5)


@pytest.mark.parametrize("settings", [{}, {"save_path": True}])
def test_a_trial_averages_the_finite_steps_where_others_are_left_out(settings, tmp_path):
    torch = pytest.importorskip("torch")
    from delira import Trial

    x = torch.arange(22.0).reshape(22, 1)
    y = torch.zeros(22, 1)
    y[8] = torch.nan
    model = torch.nn.Linear(1, 1)
    more = {"save_path": tmp_path} if settings else {}
    trial = Trial(
        model, torch.optim.SGD(model.parameters(), lr=0.0), torch.nn.functional.mse_loss, metrics=["loss"], verbose=0,
        nonfinite="skip", **more,
    )  # fmt: skip
    record = trial.with_train_data(x, y, batch_size=2, shuffle=False).run(1)[0]
    with torch.no_grad():
        losses = ((model(x) - y) ** 2).reshape(-1, 2).mean(dim=1)
    finite = losses[torch.isfinite(losses)]
    assert len(losses) == 11  # of which the last is the second that a running mean is computed for
    assert [record["loss"], record["running_loss"]] == pytest.approx([float(finite.mean())] * 2, rel=1e-5)
