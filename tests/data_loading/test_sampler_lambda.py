"""The sampler that asks a user's function."""

import random

import numpy as np
import pytest

from delira.data_loading import BaseDataManager, DictDataset
from delira.data_loading.sampler import LambdaSampler
from delira.errors import ConfigError


def rng(seed=0):
    return np.random.default_rng(seed)


def test_the_function_is_asked_once_for_each_batch_with_all_indices():
    calls = []

    def choose(indices, n):
        calls.append((indices, n))
        return indices[:n]

    sampler = LambdaSampler([4, 8, 6, 2, 5], choose)
    assert sampler.batched_order(rng(), 2).tolist() == [4, 8, 4, 8, 4]
    assert calls == [([4, 8, 6, 2, 5], 2), ([4, 8, 6, 2, 5], 2), ([4, 8, 6, 2, 5], 1)]
    assert all(type(index) is int for index in calls[0][0])
    assert list(sampler) == [4] * 5
    assert sampler(3).tolist() == [4, 8, 6]


def test_the_batches_of_a_manager_are_those_of_the_function():
    def one_block(indices, n):
        start = np.random.randint(len(indices) - n + 1)
        return indices[start : start + n]

    manager = BaseDataManager(
        {"data": np.arange(100)}, 10, sampler_cls=LambdaSampler, sampler_kwargs={"sampling_fn": one_block}
    )
    order = manager.sampler.batched_order(rng(), 10).reshape(10, 10)
    assert (np.diff(order, axis=1) == 1).all()
    assert len(set(order[:, 0].tolist())) > 1
    assert manager.get_subset(range(50)).n_batches == 5


@pytest.mark.parametrize("function", [random.sample, np.random.choice, lambda indices, n, rng: rng.choice(indices, n)])
def test_randomness_comes_from_the_generator_alone(function):
    sampler = LambdaSampler(1000, function)
    random.seed(1), np.random.seed(1)
    expected = sampler.batched_order(rng(3), 6).tolist()
    random.seed(2), np.random.seed(2)
    assert sampler.batched_order(rng(3), 6).tolist() == expected
    assert sampler.batched_order(rng(4), 6).tolist() != expected
    first, second = expected[:6], expected[6:12]
    assert first != second


def test_the_global_generators_are_given_back_also_after_an_error():
    def fail(indices, n):
        random.random(), np.random.rand()
        raise ValueError("no more")

    random.seed(0), np.random.seed(0)
    expected = random.random(), np.random.rand()
    random.seed(0), np.random.seed(0)
    with pytest.raises(ValueError, match="no more") as caught:
        LambdaSampler(10, fail).batched_order(rng(), 3)
    assert (random.random(), np.random.rand()) == expected
    assert "fail chose 3 indices for batch 1" in caught.value.__notes__[0]


def test_a_function_may_change_its_list():
    given = []

    def take_away(indices, n):
        given.append(indices.copy())
        return [indices.pop(0) for _ in range(n)]

    sampler = LambdaSampler(10, take_away)
    assert sampler.batched_order(rng(), 4).tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert given == [list(range(10))] * 3


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda indices, n: indices[:2], r"must return 3 integers for batch 1, got an array of shape \(2,\)"),
        (lambda indices, n: indices[: n + 1], r"must return 3 integers for batch 1, got an array of shape \(4,\)"),
        (lambda indices, n: indices[:3], r"must return 1 integers for batch 3, got an array of shape \(3,\)"),
        (lambda indices, n: None, r"must return 3 integers for batch 1, got an array of shape \(\) and dtype object"),
        (lambda indices, n: [0.5] * n, r"must return 3 integers .* dtype float64"),
        (lambda indices, n: [True] * n, r"must return 3 integers .* dtype bool"),
        (lambda indices, n: [1] * n if n == 3 else [70] * n, "returned 70 for batch 3, which is none of the indices"),
        (lambda indices, n: [-1] * n, "returned -1 for batch 1, which is none of the indices"),
        (lambda indices, n: next(iter([])), "raised StopIteration for batch 1"),
    ],
)
def test_a_wrong_answer_names_the_function_and_the_batch(function, match):
    with pytest.raises(ConfigError, match=f"sampling_fn .*<lambda> {match}"):
        LambdaSampler(7, function)(3)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(ConfigError, match="sampling_fn must be a function of a list of indices and a number, got 3"):
        LambdaSampler(7, 3)


def test_a_builtin_without_a_signature_is_called_without_rng():
    with pytest.raises(TypeError) as caught:
        LambdaSampler(7, max).order(rng())
    assert caught.value.__notes__ == ["while sampling_fn max chose 1 indices for batch 1"]


def test_it_is_built_over_a_dataset():
    sampler = LambdaSampler.from_dataset(DictDataset({"data": np.zeros(4)}), sampling_fn=random.sample)
    assert sorted(sampler(4).tolist()) == [0, 1, 2, 3]
    assert list(LambdaSampler([], random.sample)) == []
