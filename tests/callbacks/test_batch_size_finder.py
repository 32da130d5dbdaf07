"""The largest batch that there is memory for, found by steps which leave no trace."""

import numpy as np
import pytest

import delira
from delira.callbacks.abstract_callback import Callback
from delira.errors import ConfigError
from delira.training.finders import find_batch_size, resized

REASON = "the {} backend needs the package {!r}, which is not installed"
rng = np.random.default_rng(0)
DATA = rng.normal(size=(22, 3)).astype(np.float32)
TARGETS = (DATA @ rng.normal(size=(3, 2)) + 0.3).astype(np.float32)


def leaves_of(tree):
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree, key=str) for leaf in leaves_of(tree[key])]
    return [leaf for part in tree for leaf in leaves_of(part)] if isinstance(tree, (list, tuple)) else [tree]


def everything(trial):
    trainer = trial.trainer
    tree = trainer.backend.arrays.snapshot(trainer.backend.checkpoints.state_tree(trainer.module, trainer.optimizers))
    return [np.asarray(leaf) for leaf in leaves_of(trainer.backend.arrays.to_numpy(tree))]


def assert_equal(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def refuse_python(torch):
    raise MemoryError("no memory")


def refuse_numpy(torch):
    np.empty(2**50)


def refuse_host(torch):
    torch.empty(2**50)


def refuse_cuda(torch):
    raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def limited(limit, seen=None, refuse=refuse_python, **settings):
    """A network of PyTorch that has no memory for more samples."""
    torch = pytest.importorskip("torch", reason=REASON.format("torch", "torch"))

    class Limited(torch.nn.Linear):
        def forward(self, x):
            if seen is not None:
                seen.append(len(x))
            if len(x) > limit:
                refuse(torch)
            return super().forward(x)

    torch.manual_seed(0)
    net = Limited(3, 2)
    trial = delira.Trial(
        net, torch.optim.Adam(net.parameters(), 0.1), torch.nn.MSELoss(), verbose=0, **{"seed": 0, **settings}
    )
    return trial.with_train_data(DATA, TARGETS, 5)


@pytest.mark.slow_cases("arguments1")
@pytest.mark.parametrize(("limit", "arguments", "found"), [
    (10, {}, 8), (11, {"is_exact": True}, 11), (10, {"start": 3}, 6), (100, {"max_batch_size": 70}, 70),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        (8, {}, 8), (15, {"is_exact": True}, 15), (100, {"max_batch_size": 64}, 64), (5, {"start": 5}, 5),
        (5, {"start": 5, "is_exact": True}, 5), (10, {"max_batch_size": 13, "is_exact": True}, 10),
    )),
])  # fmt: skip
def test_the_largest_batch_that_fits_is_found(limit, arguments, found):
    seen = []
    trial = limited(limit, seen)
    before = everything(trial)
    assert find_batch_size(trial, **{"max_batch_size": 2**20, **arguments}) == found
    assert max(seen) <= 2 * limit + 2
    assert_equal(before, everything(trial))
    assert len(trial.run(1)) == 1


@pytest.mark.parametrize("refuse", [refuse_numpy, refuse_host, refuse_cuda])
def test_every_kind_of_refusal_is_understood(refuse):
    assert find_batch_size(limited(5, refuse=refuse), max_batch_size=100) == 4


@pytest.mark.parametrize("limit", [4, 100])
def test_sizes_of_numpy_are_taken_and_the_result_is_plain(limit):
    found = find_batch_size(limited(5), max_batch_size=np.int64(limit), start=np.int64(2), steps=np.int64(1))
    assert (found, type(found)) == (4, int)


def test_each_size_is_tried_with_updates():
    seen = []
    find_batch_size(limited(9, seen), max_batch_size=100, steps=3)
    assert seen == [2, 2, 2, 4, 4, 4, 8, 8, 8, 16]


def test_where_nothing_fits_it_says_so():
    with pytest.raises(ConfigError, match="not the memory for a batch of 4 samples"):
        find_batch_size(limited(3), max_batch_size=100, start=4)


def test_other_errors_arrive_as_they_are():
    trial = limited(100)
    trial.state["criterion"] = lambda pred, true: 1 / 0
    with pytest.raises(ZeroDivisionError):
        find_batch_size(trial, max_batch_size=8)


def keras_parts():
    pytest.importorskip("tensorflow", reason=REASON.format("tensorflow", "tensorflow"))
    import keras

    return keras.Sequential([keras.layers.Dense(2)]), keras.optimizers.Adam(0.05), keras.losses.MeanSquaredError()


def jax_parts():
    nnx = pytest.importorskip("flax.nnx", reason=REASON.format("jax", "flax"))
    import optax

    return nnx.Linear(3, 2, rngs=nnx.Rngs(0)), optax.adam(0.05), lambda p, t: ((p - t) ** 2).mean()


PARTS = {"tensorflow": keras_parts, "jax": jax_parts}


@pytest.mark.slow_cases("jax")
@pytest.mark.parametrize("backend", PARTS)
def test_the_other_frameworks_tell_it_too(backend):
    class Limit(Callback):
        def on_forward(self, state):
            if state["y_pred"].shape[0] > 5:
                raise MemoryError("no memory")

    trial = delira.Trial(*PARTS[backend](), [], [Limit()], verbose=0, compiled=False).with_train_data(DATA, TARGETS, 4)
    assert find_batch_size(trial, max_batch_size=64) == 4


def test_a_cpu_needs_a_limit():
    with pytest.raises(ConfigError, match=r"on the device 'cpu' the system ends a process .* pass max_batch_size="):
        find_batch_size(limited(10))


@pytest.mark.parametrize(("arguments", "message"), [
    ({"start": 0}, "start"), ({"steps": 0}, "steps"), ({"max_batch_size": 2.5}, "max_batch_size"),
    ({"start": 9, "max_batch_size": 8}, "below start"),
])  # fmt: skip
def test_impossible_sizes_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        find_batch_size(limited(10), **{"max_batch_size": 16, **arguments})


def test_parts_of_batches_would_hide_the_size():
    with pytest.raises(ConfigError, match="micro_batches='auto'"):
        find_batch_size(limited(10, micro_batches="auto"), max_batch_size=8)


def test_a_batch_is_repeated_in_any_structure():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")

    batch = {
        "data": [DATA[:3], torch.from_numpy(DATA[:3])], "names": ["a", "b", "c"], "constant": np.ones(7), "scale": 2.0,
    }  # fmt: skip
    changed = resized(batch, 3, 7)
    rows = [0, 1, 2, 0, 1, 2, 0]
    np.testing.assert_array_equal(changed["data"][0], DATA[rows])
    assert torch.equal(changed["data"][1], torch.from_numpy(DATA[rows]))
    assert changed["names"] == list("abcabca")
    assert changed["constant"] is batch["constant"]
    assert changed["scale"] == 2.0
    np.testing.assert_array_equal(resized(batch, 3, 2)["data"][0], DATA[:2])


def test_a_number_of_tensorflow_in_a_batch_stays_as_it_is():
    tensorflow = pytest.importorskip("tensorflow", reason=REASON.format("tensorflow", "tensorflow"))
    batch = {"data": tensorflow.constant(DATA[:3]), "scale": tensorflow.constant(2.0)}
    changed = resized(batch, 3, 7)
    np.testing.assert_array_equal(changed["data"], DATA[[0, 1, 2, 0, 1, 2, 0]])
    assert changed["scale"] is batch["scale"]


@pytest.mark.gpu
def test_the_memory_of_a_gpu_is_found():
    """Each sample needs 64 MiB and more; a limit is set so that few of them fit."""
    torch = pytest.importorskip("torch", reason=REASON.format("torch", "torch"))
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")

    class Wide(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2**24))

        def forward(self, x):
            return (x[:, :1] * self.weight).tanh().mean(dim=1, keepdim=True)

    net = Wide()
    trial = delira.Trial(net, torch.optim.SGD(net.parameters(), 0.1), torch.nn.MSELoss(), verbose=0, device="cuda")
    trial.with_train_data(DATA, TARGETS[:, :1], 2)
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, 4 * 2**30 / total))
    try:
        before = everything(trial)
        found = find_batch_size(trial, is_exact=True)
        assert 4 <= found <= 63
        assert_equal(before, everything(trial))
        x = np.repeat(DATA[:1], found, axis=0)
        trial.with_train_data(x, x[:, :1], found).run(1)
        x = np.repeat(DATA[:1], 2 * found, axis=0)
        trial.with_train_data(x, x[:, :1], 2 * found)
        with pytest.raises(torch.cuda.OutOfMemoryError):
            trial.run(2)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
