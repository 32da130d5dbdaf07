"""Whole samples mixed with others of the batch: each formula against numpy."""

import numpy as np
import pytest
from mixing_batches import LABELS, a_step, converter, sampled
from scipy import stats

from delira.callbacks.mixing import default_policy
from delira.callbacks.mixing.mixed import step_generator
from delira.state import MIXUP_LAMBDA, MIXUP_PERMUTATION, Y_TRUE, X
from delira.training.callbacks import (
    Mixup,
    SamplePairing,
    mixup_loss,
)


def test_mixup_is_the_weighted_mean_of_pairs(convert):
    x, y = np.random.default_rng(0).normal(size=(8, 3)).astype("f4"), LABELS
    state = sampled(Mixup(0.4), convert(x), convert(y))
    share, rows = float(state[MIXUP_LAMBDA]), np.asarray(state[MIXUP_PERMUTATION])
    assert np.asarray(state[MIXUP_LAMBDA]).dtype == np.float32
    assert np.asarray(state[MIXUP_LAMBDA]).shape == ()
    assert sorted(rows) == list(range(8))
    assert rows.tolist() != list(range(8))
    np.testing.assert_allclose(state[X], share * x + (1 - share) * x[rows], rtol=1e-5, atol=1e-6)
    one, other = state[Y_TRUE]
    np.testing.assert_array_equal(one, y)
    np.testing.assert_array_equal(other, y[rows])


def test_every_array_of_an_input_of_several_is_mixed(convert):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(8, 3)).astype("f4"), rng.normal(size=(8, 2, 2)).astype("f4")
    state = sampled(Mixup(lam=0.3), (convert(a), {"b": convert(b)}), (convert(LABELS), convert(a)))
    rows = np.asarray(state[MIXUP_PERMUTATION])
    np.testing.assert_allclose(state[X][0], 0.3 * a + 0.7 * a[rows], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state[X][1]["b"], 0.3 * b + 0.7 * b[rows], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(state[Y_TRUE].second[0], LABELS[rows])
    np.testing.assert_array_equal(state[Y_TRUE].second[1], a[rows])


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_lambda_is_of_the_beta_distribution(alpha):
    convert, callback = converter("torch"), Mixup(alpha)
    x = convert(np.zeros((2, 1), "f4"))
    shares = [float(sampled(callback, x, x, batch=batch)[MIXUP_LAMBDA]) for batch in range(300)]
    assert stats.kstest(shares, stats.beta(alpha, alpha).cdf).pvalue > 0.01


def test_a_lambda_may_be_fixed():
    convert = converter("torch")
    x = convert(np.zeros((2, 1), "f4"))
    assert float(sampled(Mixup(lam=0.25), x, x)[MIXUP_LAMBDA]) == 0.25
    assert Mixup(lam=Mixup.RANDOM).lam == Mixup().lam
    assert Mixup.mixup_loss is mixup_loss


def test_sample_pairing_is_the_mean_and_keeps_targets(convert):
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("f4")
    y = convert(LABELS)
    callback = SamplePairing(lambda state: True)
    state = sampled(callback, convert(x), y)
    rows = step_generator(a_step(callback, x, y), callback).permutation(8)
    np.testing.assert_allclose(state[X], (x + x[rows]) / 2, rtol=1e-6)
    assert state[Y_TRUE] is y


def test_samples_are_paired_where_the_policy_says_so():
    policy = default_policy(3, 12, 2, 1)
    assert [epoch for epoch in range(20) if policy({"epoch": epoch})] == [3, 4, 6, 7, 9, 10]
    standard = default_policy()
    assert [epoch for epoch in range(1000) if standard({"epoch": epoch})] == [
        epoch for epoch in range(100, 800) if epoch % 10 < 8
    ]
    x = converter("torch")(np.random.default_rng(0).normal(size=(8, 3)).astype("f4"))
    assert sampled(SamplePairing(), x, x, epoch=99)[X] is x
    assert sampled(SamplePairing(), x, x, epoch=100)[X] is not x
