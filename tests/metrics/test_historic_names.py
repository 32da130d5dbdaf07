"""Metrics under the names and with the arguments that the contract has, and the numbers of the epochs."""

import numpy as np
import pytest
from tree_loop import converter, one_pass

import delira.metrics
from delira.errors import DataError
from delira.metrics import PrAuc, RocAuc, RocAucScore, TimerMetric
from delira.metrics.tree.criteria import log_odds

RANDOM = np.random.default_rng(2)
SCORES = RANDOM.dirichlet(np.ones(3), 20).astype(np.float32)
LABELS = np.arange(20) % 3


def reported(metric, labels, scores=SCORES, convert=np.array):
    pairs = [(convert(scores[at : at + 8]), convert(labels[at : at + 8])) for at in (0, 8, 16)]
    return one_pass([metric], pairs)[1]["roc_auc_score"]


@pytest.mark.parametrize("framework", ["numpy", "torch", "tensorflow", "jax"])
def test_the_area_of_labels_and_of_tables_is_that_of_scikit_learn(framework):
    sk = pytest.importorskip("sklearn.metrics", reason="the comparison is with scikit-learn")
    convert, table = converter(framework), np.eye(3, dtype=np.float32)[LABELS]
    wanted = pytest.approx(sk.roc_auc_score(LABELS, SCORES, multi_class="ovr"), rel=1e-6)
    assert reported(RocAuc(), LABELS, convert=convert) == wanted
    assert reported(RocAucScore(), LABELS, convert=convert) == wanted
    assert reported(RocAucScore(one_hot_offset=1, one_hot_classes=3), LABELS + 1, convert=convert) == wanted
    assert reported(RocAucScore(one_hot_labels=False), table, convert=convert) == wanted
    two = pytest.approx(sk.roc_auc_score(LABELS > 0, SCORES[:, 1]), rel=1e-6)
    assert reported(RocAucScore(one_hot_offset=1), (LABELS > 0) + 1, SCORES[:, 1], convert) == two


def test_logits_of_three_classes_whose_softmax_is_one_are_ranked_apart():
    pytest.importorskip("sklearn.metrics", reason="the areas are those of scikit-learn")
    logits = np.zeros((12, 3), np.float32)
    logits[:, 1] = [60, 40, 40] * 4  # the softmax of each is 1
    labels = np.array([1, 0, 2] * 4)
    logits[labels == 2, 2] = logits[labels == 0, 0] = 1
    for metric in (RocAuc(), PrAuc()):
        ((_, area),) = one_pass([metric], [(logits, labels)])[1].items()
        assert area == 1.0


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_log_odds_are_those_of_the_softmax_as_far_as_that_goes(n_classes):
    logits = np.random.default_rng(4).normal(scale=4, size=(50, n_classes))
    powers = np.exp(logits)
    shares = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(log_odds(logits), np.log(shares / (1 - shares)), rtol=1e-6)
    np.testing.assert_allclose(log_odds(logits + 1000), log_odds(logits), rtol=1e-9)


@pytest.mark.filterwarnings("error")
def test_log_odds_of_what_is_nowhere_are_equal():
    np.testing.assert_allclose(log_odds(np.full((1, 3), -np.inf)), log_odds(np.zeros((1, 3))))


def test_log_odds_are_finite_where_a_class_is_excluded():
    odds = log_odds(np.array([[2.0, -np.inf, 1.0], [2.0, -np.inf, -np.inf]]))
    assert np.isfinite(odds).all()
    assert odds[0].tolist() == pytest.approx([1.0, -1e300, -1.0])
    assert odds[1].tolist() == [1e300, -1e300, -1e300]


def test_labels_that_are_written_otherwise_are_refused():
    with pytest.raises(DataError, match="one_hot_classes is 10, but the scores have 3"):
        reported(RocAucScore(one_hot_classes=10), LABELS)
    with pytest.raises(DataError, match="the targets are labels, not a table; make it with one_hot_labels=True"):
        reported(RocAucScore(one_hot_labels=False), LABELS)
    with pytest.raises(DataError, match="the targets are a table, not labels; make it with one_hot_labels=False"):
        reported(RocAucScore(), np.eye(3)[LABELS])


def test_the_timer_is_shown_beside_the_metrics():
    from delira.training import callbacks

    assert TimerMetric is callbacks.TimerMetric
    with pytest.raises(AttributeError, match=r"module 'delira\.metrics' has no attribute 'Timer'"):
        delira.metrics.Timer  # noqa: B018


def test_the_number_of_the_epoch_is_that_of_the_state_and_of_the_record_from_one():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    net = torch.nn.Linear(2, 1)
    trial = delira.Trial(net, torch.optim.SGD(net.parameters(), 0.1), torch.nn.MSELoss(), ["epoch"], seed=0, verbose=0)
    x, y = torch.zeros(4, 2), torch.zeros(4, 1)
    history = trial.with_train_data(x, y, 2).with_val_data(x, y, 2).run(2)
    assert [(record["epoch"], record["val_epoch"]) for record in history] == [(1, 0), (2, 1)]
