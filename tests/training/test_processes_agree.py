"""Several processes that train one network agree on its data, its losses, its random numbers and its buffers."""

import copy
import functools
import sys

import numpy as np
import pytest
from problems import linear_problem

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.errors import ConfigError, DataError
from delira.metrics.tree.criteria import adds_up
from delira.training.ranks import Ranks

torch = pytest.importorskip("torch", reason="networks of the package 'torch', which is not installed")
from trained_in_processes import (  # noqa: E402
    Broken,
    Classes,
    Deep,
    Drawn,
    Fixed,
    Following,
    Noisy,
    Pixels,
    SameSamples,
    Sparse,
    Unfollowed,
    joint_closure,
    measuring_closure,
    of_deep,
    plain_closure,
    rmse_of_step,
    train,
    values_of,
    weights_of,
)

from delira.backends.torch.group import TorchGroup  # noqa: E402
from delira.models import ResidualUNet2dPyTorch  # noqa: E402

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform == "win32", reason="processes are started as on Unix"),
]
TWO = {"devices": 2, "device": "cpu"}


def data(n=43, batch_size=8):
    arrays = {name: array.astype(np.float32) for name, array in linear_problem(n).items()}
    return BaseDataManager(arrays, batch_size)


def check_same(one, several, rtol=1e-5):
    assert values_of(one)
    for alone, together in zip(values_of(one), values_of(several), strict=True):
        assert alone.keys() == together.keys()
        for name, value in alone.items():
            np.testing.assert_allclose(together[name], value, rtol=rtol, err_msg=name)
    for name, weight in weights_of(one).items():
        np.testing.assert_allclose(weights_of(several)[name], weight, rtol=rtol, atol=1e-6, err_msg=name)


def test_what_was_changed_before_the_training_counts_in_all_processes(tmp_path):
    """The number of the first epoch, by which data are shuffled, and rates that are not those of the settings."""
    how = {"start_epoch": 3, "epochs": 4, "before": lambda trainer: trainer.scale_rates(0.1)}
    one = train(tmp_path / "one", data(), **how)
    two = train(tmp_path / "two", data(), **how, **TWO)
    assert [epoch["epoch"] for epoch in values_of(two)] == [3, 4]
    assert values_of(two)[0]["lr"] == pytest.approx(0.001)
    check_same(one, two)


@pytest.mark.parametrize("gradients", [{}, {"gradient_accumulation_steps": 2}], ids=["each", "accumulated"])
def test_losses_that_are_sums_or_count_nothing_are_those_of_one_process(tmp_path, gradients):
    """A batch in which nothing counts is left out; of the next, nothing counts in one share."""
    arrays = {"data": linear_problem(27)["data"].astype(np.float32), "label": np.arange(27) % 3}
    arrays["label"][:8] = -100
    arrays["label"][8:12] = 0
    manager = BaseDataManager(arrays, 8, sampler_cls=SequentialSampler)
    losses = {
        "ce": torch.nn.CrossEntropyLoss(torch.tensor([0.0, 1.0, 1.0])),
        "sum": torch.nn.CrossEntropyLoss(reduction="sum"),
    }
    how = {"network": Classes, "losses": losses, "val_metrics": {}, "epochs": 3, "nonfinite": "skip", **gradients}
    one = train(tmp_path / "one", manager, **how)
    two = train(tmp_path / "two", manager, **how, **TWO)
    assert [each.num_skipped for each in two.optimizers.values()] == [3]
    assert [each.num_skipped for each in one.optimizers.values()] == [3]
    check_same(one, two)


def test_pixels_that_are_too_many_to_count_in_each_process_are_counted_together(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, (4, 257, 257))
    labels[:2, :200] = -100
    manager = BaseDataManager({"data": rng.normal(size=(4, 1, 257, 257)).astype(np.float32), "label": labels}, 4)
    how = {"network": Pixels, "losses": {"ce": torch.nn.CrossEntropyLoss()}, "val_metrics": {}, "epochs": 2}
    check_same(train(tmp_path / "one", manager, **how), train(tmp_path / "two", manager, **how, **TWO))


def test_a_step_is_one_exchange(tmp_path, monkeypatch):
    """Gradients, losses and signals go together: what takes time is to wake the processes, not the numbers."""
    sizes, all_reduce = [], torch.distributed.all_reduce

    def counted(tensor, *how):
        sizes.append(tensor.numel())
        return all_reduce(tensor, *how)

    def n_exchanges(n):
        sizes.clear()
        labels = {"data": linear_problem(n)["data"].astype(np.float32), "label": np.arange(n) % 3}
        loss = {"losses": {"ce": torch.nn.CrossEntropyLoss(torch.tensor([1.0, 1.0, 2.0]))}, "val_metrics": {}}
        train(tmp_path / str(n), BaseDataManager(labels, 8), 1, network=Classes, **loss, **TWO)
        return len(sizes)

    monkeypatch.setattr(torch.distributed, "all_reduce", counted)
    assert n_exchanges(80) - n_exchanges(48) == 4


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (torch.nn.MSELoss(reduction="sum"), True),
        (functools.partial(torch.nn.functional.mse_loss, reduction="sum"), True),
        (functools.partial(torch.nn.functional.mse_loss, size_average=False), True),
        (torch.jit.script(torch.nn.MSELoss(reduction="sum")), True),
        (torch.nn.MSELoss(), False),
        (torch.nn.functional.mse_loss, False),
        (lambda pred, label: (pred - label).square().sum(), False),
    ],
    ids=["a module", "a partial", "as of old", "a script", "a mean", "a function", "of one's own"],
)
def test_a_loss_says_whether_it_is_a_sum_or_is_taken_for_a_mean(loss, expected):
    assert adds_up(loss) is expected


def test_outputs_without_samples_stay_what_they_are(tmp_path):
    """One of four rows, in shares of four and three samples; of types that processes do not exchange as such."""
    how = {"network": Fixed, "train_metrics": {"rmse": rmse_of_step}, "epochs": 2}
    one = train(tmp_path / "one", data(43, 7), **how)
    two = train(tmp_path / "two", data(43, 7), **how, **TWO)
    check_same(one, two)


def test_batches_that_are_drawn_and_prepared_at_random_are_those_of_one_process(tmp_path):
    one = train(tmp_path / "one", Drawn(), network=Noisy, epochs=3)
    two = train(tmp_path / "two", Drawn(), network=Noisy, epochs=3, **TWO)
    check_same(one, two)


def test_a_network_that_reads_its_buffers_goes_on_inside_an_epoch_with_the_same_bits(tmp_path):
    """Each process follows its own shares, and the checkpoint has the buffers of the first alone."""
    how = {"network": Following, "save_freq_steps": 3, "epochs": 2, **TWO}
    whole = train(tmp_path / "whole", data(), **how)
    with pytest.raises(ZeroDivisionError):
        train(tmp_path / "broken", data(), callbacks=[Broken(2, 4)], **how)
    again = train(tmp_path / "broken", data(), **how)
    assert values_of(again) == values_of(whole)
    for name, weight in weights_of(whole).items():
        np.testing.assert_array_equal(weights_of(again)[name], weight)


def test_data_that_differ_between_processes_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"the first batch of epoch 1 is another one in process 1 .* draw by a seed"):
        train(tmp_path, Drawn(is_seeded=False), **TWO)


def test_validation_data_that_differ_between_processes_are_refused(tmp_path):
    """Each predicts its share of its own data, and metrics compare all of it with the targets of the first one's."""
    message = r"the first validation batch of epoch 1 is another one in process 1 .* predicts its share"
    with pytest.raises(DataError, match=message):
        train(tmp_path / "differ", data(), val=Drawn(is_seeded=False), **TWO)
    check_same(train(tmp_path / "one", data(), val=Drawn()), train(tmp_path / "two", data(), val=Drawn(), **TWO))


def test_batches_are_compared_as_they_were_loaded(tmp_path):
    """What is prepared of them may be no array, and on GPUs not the same bits."""
    check_same(train(tmp_path / "one", data(), network=Sparse), train(tmp_path / "two", data(), network=Sparse, **TWO))


def test_a_batch_normalisation_gets_shares_of_two_samples(tmp_path, caplog):
    """Of the last batch, of three samples, the first process has all; what no share can cure is told with its cure."""
    trainer = train(tmp_path / "run", data(), batchnorm=True, **TWO)
    assert len(values_of(trainer)) == 2
    with pytest.raises(ValueError, match="Expected more than 1 value per channel") as caught:
        train(tmp_path / "one", data(41), batchnorm=True, epochs=1)
    assert any("drop_last=True" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("n_samples", "size", "counts"),
    [(8, 2, [4, 4]), (3, 2, [3, 0]), (1, 2, [1, 0]), (7, 4, [3, 2, 2, 0]), (5, 4, [3, 2, 0, 0])],
)
def test_shares_have_two_samples_or_none_where_that_is_wanted(n_samples, size, counts):
    ranks = [Ranks(rank, size, least=2) for rank in range(size)]
    shares = [one.share({"x": np.arange(n_samples)}, n_samples) for one in ranks]
    assert [count for _, count in shares] == counts
    assert np.concatenate([share["x"][:count] for share, count in shares]).tolist() == list(range(n_samples))
    assert [len(share["x"]) for share, _ in shares] == [one.n_taken(n_samples) for one in ranks]
    assert min(len(share["x"]) for share, _ in shares) >= min(2, n_samples)


def test_a_sum_in_a_closure_of_ones_own_is_told(tmp_path, caplog):
    losses = {"mse": torch.nn.MSELoss(reduction="sum")}
    train(tmp_path, data(8), closure=plain_closure, losses=losses, epochs=1, optimizer_cls="Adam", **TWO)
    assert "mse: a sum, in a closure of your own, which is taken to learn means" in caplog.text


def test_metrics_of_a_closure_of_ones_own_are_what_it_computes(tmp_path, caplog):
    """What it measures nobody else knows: of a mean over samples the mean over the shares is that of the batch."""
    how = {"closure": measuring_closure, "train_metrics": {"again": torch.nn.functional.mse_loss}}
    one = train(tmp_path / "one", data(), **how)
    assert "computed in a closure of your own" not in caplog.text
    two = train(tmp_path / "two", data(), **how, **TWO)
    assert values_of(one)[0]["again"] != pytest.approx(values_of(one)[0]["mse"], rel=0.01)
    check_same(one, two)
    assert "again: computed in a closure of your own, of its share of a batch" in caplog.text


def test_a_loss_that_several_optimizers_learn_from(tmp_path):
    """It is that of one process, or is refused: who scaled it can tell, the others cannot."""
    how = {"network": Deep, "optim_fn": of_deep}
    one = train(tmp_path / "one", data(), closure=joint_closure(None), **how)
    check_same(one, train(tmp_path / "two", data(), closure=joint_closure(None), **how, **TWO))
    check_same(one, train(tmp_path / "scaled", data(), closure=joint_closure("layers"), **how))
    with pytest.raises(ConfigError, match="cannot tell whether these are scaled, too; call backward"):
        train(tmp_path / "both", data(), closure=joint_closure("layers"), **how, **TWO)


@pytest.mark.parametrize("metrics", [{}, {"rmse": rmse_of_step}], ids=["no metrics", "metrics"])
def test_callbacks_see_inputs_targets_and_predictions_of_the_same_samples(tmp_path, metrics):
    seen = SameSamples()
    train(tmp_path, data(11), 1, callbacks=[seen], train_metrics=metrics, **TWO)
    assert seen.sizes == 2 * ((4, 4, 4),) + 2 * ((2, 2, 2),)


def test_a_network_that_normalises_by_batches_in_validations_gets_whole_ones(tmp_path, caplog):
    how = {"network": Unfollowed, "epochs": 1, "before": lambda trainer: trainer.scale_rates(1e-9)}
    one = train(tmp_path / "one", data(), **how)
    two = train(tmp_path / "two", data(), **how, **TWO)
    for name in ("val_squares", "val_mse"):
        assert values_of(two)[0][name] == pytest.approx(values_of(one)[0][name], rel=1e-6)
    assert "each of the 2 processes normalises its share of a batch by itself; normalise by groups" in caplog.text


def test_layers_that_normalised_together_are_the_networks_own_again():
    """With two names in one layer, and with the statistics of a network that was moved meanwhile."""
    network = torch.nn.Module()
    network.first = network.second = torch.nn.BatchNorm1d(3)
    own = network.first
    with TorchGroup.normalising(None, network):
        assert type(network.first) is type(network.second) is torch.nn.SyncBatchNorm
        network.first._buffers.update({name: one + 1 for name, one in network.first._buffers.items()})
        network.eval()
    assert network.first is network.second is own
    assert not own.training
    np.testing.assert_array_equal(own.running_mean, np.ones(3))


def test_losses_over_scales_that_may_ignore_targets_are_told(tmp_path, caplog):
    network = ResidualUNet2dPyTorch(3, channels=(4, 6, 6), n_units=1, deep_supervision=1)
    rng = np.random.default_rng(0)
    arrays = {"data": rng.normal(size=(4, 1, 8, 8)).astype(np.float32), "label": rng.integers(0, 3, (4, 8, 8))}
    losses = {"ce": torch.nn.CrossEntropyLoss()}
    how = {"network": lambda **_: copy.deepcopy(network), "losses": losses, "val_metrics": {}, "epochs": 1}
    one = train(tmp_path / "one", BaseDataManager(arrays, 4), **how)
    assert "over outputs of several scales" not in caplog.text
    check_same(one, train(tmp_path / "two", BaseDataManager(arrays, 4), **how, **TWO))
    assert "ce: over outputs of several scales, what it counts in a share is known of the finest" in caplog.text
