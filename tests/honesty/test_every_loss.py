"""Every loss of PyTorch and delira: the number of an epoch does not depend on how it is cut, if it is a mean."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import losses_of_torch  # noqa: E402
from hypothesis import given  # noqa: E402
from loss_cases import SEEDS, SIZES, Case, batches, by_batches, can_train, close, few, in_pairs, keys_of  # noqa: E402

from delira import Trial  # noqa: E402
from delira.errors import NetworkError  # noqa: E402
from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import PyTorchNetworkTrainer  # noqa: E402


def network_of(case: Case) -> Any:
    class Net(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, x):
            return case.split(x * self.scale)

    return Net()


def trainer_of(case: Case, loss: Any, **more: Any) -> Any:
    return PyTorchNetworkTrainer(
        network_of(case), None, losses={"loss": loss}, optimizer_cls=torch.optim.SGD, optimizer_params={"lr": 0.0},
        logging_type=None, verbose=False, **keys_of(case), **more,
    )  # fmt: skip


def trial_of(case: Case, x: Any, targets: Any, batch_size: int) -> Any:
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, x):
            outputs = tuple(case.split(x * self.scale).values())
            return outputs if len(outputs) > 1 else outputs[0]

    net = Net()
    trial = Trial(net, torch.optim.SGD(net.parameters(), lr=0.0), case.loss(), metrics=["loss"], verbose=0)
    pairs = [in_pairs(case, x, targets, size, torch.from_numpy) for size in (batch_size, 7)]
    return trial.with_train_generator(pairs[0]).with_val_generator(pairs[1])


@pytest.mark.filterwarnings("ignore:reduction:UserWarning")  # of KLDivLoss: what its mean is
@pytest.mark.parametrize("name", losses_of_torch.CASES)
@few
@given(seed=SEEDS, n=SIZES)
def test_losses_of_pytorch_are_those_of_the_data_set(name, seed, n):
    case = losses_of_torch.CASES[name]
    x, targets = case.draw(np.random.default_rng(seed), n)
    for batch_size in case.batch_sizes(n):
        trainer = trainer_of(case, case.loss())
        learned = batch_size if can_train(case, n, batch_size) else 7
        trainer.train(1, batches(x, targets, learned), batches(x, targets, batch_size))
        record = trainer.state.history[0]
        assert record["loss"] == close(case.expected(x, targets, learned, losses_of_torch.call))
        assert record["val_loss"] == close(case.expected(x, targets, batch_size, losses_of_torch.call))
        record = trial_of(case, x, targets, learned).run(1)[0]
        assert record["loss"] == close(case.expected(x, targets, learned, losses_of_torch.call))
        assert record["val_loss"] == close(case.expected(x, targets, 7, losses_of_torch.call))


@pytest.mark.filterwarnings("ignore:reduction:UserWarning")
@pytest.mark.parametrize("name", losses_of_torch.CASES)
def test_sums_of_pytorch_are_of_batches_and_what_is_no_number_is_refused(name):
    case = losses_of_torch.CASES[name]
    x, targets = case.draw(np.random.default_rng(5), 16)
    data = batches(x, targets, 7)
    for reduction in case.reductions:
        loss = case.loss(reduction=reduction)
        trainer = trainer_of(case, loss)
        if reduction == "none":
            with pytest.raises(NetworkError, match=r"loss.* shape \(.*reduction='mean'"):
                trainer.train(1, data, data)
            continue
        trainer.train(1, data, data)
        sums, sizes = by_batches(case, loss, x, targets, losses_of_torch.call)
        record = trainer.state.history[0]
        assert [record["loss"], record["val_loss"]] == [close(np.average(sums, weights=sizes))] * 2
        trainer = trainer_of(case, loss, reduce_mode="sum")
        trainer.train(1, data)
        assert trainer.state.history[0]["loss"] == close(sum(sums))


def test_every_loss_of_pytorch_has_a_case():
    assert losses_of_torch.NAMES - losses_of_torch.CASES.keys() == set()
