"""What a class looks like to a network, against the answer that a linear network has."""

import sys

import numpy as np
import pytest

import delira
from delira.callbacks.abstract_callback import Callback
from delira.callbacks.imaging import ClassAppearanceModel
from delira.errors import ConfigError
from delira.state import MODEL, Y_PRED, state_key

SIZE, CLASSES, DECAY = (3, 4, 5), 4, 0.5
LABEL, SCORES = state_key("test_appearance_label"), state_key("test_appearance_scores")
WEIGHT = np.random.default_rng(0).normal(size=(60, CLASSES)).astype("f4")


def wanted(target):
    """Where ``weight[:, target] @ x - decay * x @ x`` is largest, stretched; the pixels are those of the input."""
    best = WEIGHT[:, target] / (2 * DECAY)
    return (best - best.min()) / (best.max() - best.min())


def keras_parts():
    pytest.importorskip("tensorflow", reason="the tensorflow backend needs the package 'tensorflow'")
    import keras

    class Linear(keras.Model):
        def __init__(self):
            super().__init__()
            self.flat, self.drop, self.dense = keras.layers.Flatten(), keras.layers.Dropout(0.5), keras.layers.Dense(4)

        def call(self, x, training=None):
            return self.dense(self.drop(self.flat(x), training=training))

    net = Linear()
    net(np.zeros((1, 4, 5, 3), "f4"))
    net.dense.set_weights([WEIGHT, np.zeros(4, "f4")])
    return net, keras.optimizers.SGD(0.0), keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def torch_parts():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(60), torch.nn.Linear(60, 4)
    )
    net[3].weight.data = torch.from_numpy(WEIGHT.T.copy())
    net[3].bias.data.zero_()
    return net, torch.optim.SGD(net.parameters(), 0.0), torch.nn.CrossEntropyLoss()


def jax_parts():
    nnx = pytest.importorskip("flax.nnx", reason="the jax backend needs the package 'flax', which is not installed")
    import optax

    class Linear(nnx.Module):
        def __init__(self):
            self.drop = nnx.Dropout(0.5, rngs=nnx.Rngs(0))
            self.dense = nnx.Linear(60, 4, rngs=nnx.Rngs(0))
            self.dense.kernel.set_value(sys.modules["jax"].numpy.asarray(WEIGHT))

        def __call__(self, x):
            return self.dense(self.drop(x.reshape(len(x), 60)))

    loss = lambda p, t: optax.softmax_cross_entropy_with_integer_labels(p, t).mean()  # noqa: E731
    return Linear(), optax.sgd(0.0), loss


PARTS = {"torch": torch_parts, "tensorflow": keras_parts, "jax": jax_parts}


def fit(backend, *callbacks, parts=None, **settings):
    settings = {"verbose": 0, "seed": 1, **settings}
    trial = delira.Trial(*(parts or PARTS[backend]()), ["loss"], callbacks, **{"seed": 0, **settings})
    x = np.random.default_rng(1).normal(size=(6, *SIZE)).astype("f4")
    x = x if backend == "torch" else np.moveaxis(x, 1, -1).copy()
    labels = np.array([0, 1, 2, 3, 0, 1])
    return trial.with_train_data(x, labels, 3, shuffle=False).with_val_data(x, labels, 3)


def leaves(trial):
    trainer = trial.trainer
    return trainer.backend.arrays.to_numpy(
        trainer.backend.arrays.snapshot(trainer.backend.checkpoints.state_tree(trainer.module, {})["model"])
    )


@pytest.mark.slow_cases("jax")
@pytest.mark.parametrize("backend", PARTS)
def test_the_picture_is_that_of_the_class_and_the_fit_is_untouched(backend):
    """The fit has dropout: its history says if a generator moved, the weights if anything of the network did."""
    pictures = []
    callback = ClassAppearanceModel(CLASSES, SIZE, target=2, decay=DECAY, steps=200, in_transform=lambda x: x)
    callback.on_val().on_train().with_handler(lambda picture, state: pictures.append((state["data"], picture)))
    plain, watched = fit(backend), fit(backend, callback)
    assert plain.run(1) == watched.run(1)
    before, after = leaves(plain), leaves(watched)
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(value, after[name])
    assert [data for data, _ in pictures] == ["train_data", "validation_data"]
    for _, picture in pictures:
        assert picture.shape == SIZE
        flat = picture.reshape(-1) if backend == "torch" else np.moveaxis(picture, 0, -1).reshape(-1)
        if backend == "torch":  # its statistics were learned: shares of the weights
            assert np.corrcoef(flat, wanted(2))[0, 1] > 0.97
        else:
            np.testing.assert_allclose(flat, wanted(2), atol=2e-3)


def test_modes_gradients_and_what_is_learned_stay(torch_backend_only):
    torch = torch_backend_only
    net = torch_parts()[0]
    net[3].bias.requires_grad_(False)
    seen = []

    class Look(Callback):
        def on_step_training(self, state):
            model = state[MODEL]
            seen.append((
                [module.training for module in model.modules()], [p.requires_grad for p in model.parameters()],
                [None if p.grad is None else p.grad.clone() for p in model.parameters()], torch.get_rng_state(),
            ))  # fmt: skip

    first, second = Look(), Look()
    callback = ClassAppearanceModel(CLASSES, SIZE, steps=3, decay=0.1).on_train()
    optimizer = torch.optim.SGD(net.parameters(), 0.0)
    fit("torch", first, callback, second, parts=(net, optimizer, torch.nn.CrossEntropyLoss())).run(1)
    (modes, learned, gradients, random), (modes_after, learned_after, gradients_after, random_after) = seen[:2]
    assert (modes, learned) == (modes_after, learned_after)
    assert all(modes)
    assert torch.equal(random, random_after)
    for before, after in zip(gradients, gradients_after, strict=True):
        assert (before is None and after is None) or torch.equal(before, after)


@pytest.fixture
def torch_backend_only():
    return pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")


def test_random_classes_come_from_the_seed(torch_backend_only):
    def classes(seed):
        seen = []
        callback = ClassAppearanceModel(CLASSES, SIZE, steps=1).target_to_key(LABEL)
        callback.with_handler(lambda picture, state: seen.append(state[LABEL]))
        fit("torch", callback, seed=seed).run(8)
        return seen

    first = classes(1)
    assert first == classes(1)
    assert first != classes(2)
    assert len(set(first)) > 2
    assert set(first) <= set(range(CLASSES))


def test_scores_may_be_an_entry_of_the_state(torch_backend_only):
    torch = torch_backend_only

    class Stateful(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(60, 4, bias=False)
            self.linear.weight.data = torch.from_numpy(WEIGHT.T.copy())

        def forward(self, x, state):
            state[SCORES] = self.linear(x.reshape(len(x), 60))
            return x

    pictures = []
    callback = ClassAppearanceModel(CLASSES, SIZE, logit_key=SCORES, target=0, decay=DECAY)
    callback.on_test().with_handler(lambda picture, state: pictures.append(picture))
    net = Stateful()
    trial = fit("torch", callback, parts=(net, None, lambda state: (state[Y_PRED] * 0).sum()))
    trial.evaluate()
    np.testing.assert_allclose(pictures[0].reshape(-1), wanted(0), atol=2e-3)


def test_another_optimizer_and_transform(torch_backend_only):
    torch = torch_backend_only
    pictures, given = [], []

    def make(weights):
        given.extend(tuple(weight.shape) for weight in weights)
        return torch.optim.SGD(weights, lr=0.5)

    callback = ClassAppearanceModel(
        CLASSES, SIZE, make, 50, target=1, decay=DECAY, transform=lambda picture: picture[:1] * 0.1 + 0.5
    )
    callback.with_handler(lambda picture, state: pictures.append(picture))
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(60, 4, bias=False))
    net[1].weight.data = torch.from_numpy(WEIGHT.T.copy())
    fit("torch", callback, parts=(net, None, torch.nn.CrossEntropyLoss())).run(1)
    assert given == [(1, *SIZE)]
    best = (WEIGHT[:, 1] / (2 * DECAY)).reshape(SIZE)
    np.testing.assert_allclose(pictures[0], np.clip(best[:1] * 0.1 + 0.5, 0, 1), atol=1e-4)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"nclasses": 0}, "nclasses"), ({"steps": 0}, "steps"), ({"target": 4}, "target is RANDOM or a class from 0 to 3"),
    ({"target": "rnd"}, "target"), ({"input_size": (3, 4)}, "input_size"), ({"in_transfrom": abs}, "did you mean"),
])  # fmt: skip
def test_impossible_arguments_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        ClassAppearanceModel(**{"nclasses": CLASSES, "input_size": SIZE, **arguments})


def test_another_number_of_classes_is_told(torch_backend_only):
    with pytest.raises(ConfigError, match=r"scores of shape \(1, 5\) of the network, got \(1, 4\)"):
        fit("torch", ClassAppearanceModel(5, SIZE)).run(1)
