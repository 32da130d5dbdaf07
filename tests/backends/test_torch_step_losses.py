"""Losses that cannot teach anything: refused before the first step."""

import copy

import pytest

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError, NetworkError

torch = pytest.importorskip("torch")
from torch_trainings import MSE, Net, assert_same, batches_of, build, trainer_of  # noqa: E402


class Detached(Net):
    def forward(self, x):
        return {"pred": super().forward(x)["pred"].detach()}


@pytest.mark.parametrize(
    ("cls", "loss", "match"),
    [
        (
            Net,
            lambda prediction, target: MSE(prediction, target).item(),
            r"the loss \(mse\) is a float, so there is no",
        ),
        (Net, lambda prediction, target: MSE(prediction.detach(), target), r"the loss \(mse\) depends on no parameter"),
        (Detached, MSE, r"the loss \(mse\) depends on no parameter"),
        (Net, torch.nn.MSELoss(reduction="none"), r"loss 'mse': a loss .* has the shape \(4, 1\).*reduction='mean'"),
    ],
)
def test_a_loss_without_a_gradient_is_refused_before_the_first_step(cls, loss, match, tmp_path):
    network = build(cls)
    before = copy.deepcopy(network.state_dict())
    trainer = trainer_of(tmp_path, network, losses={"mse": loss})
    with pytest.raises(NetworkError, match=match):
        trainer.train(1, BaseDataManager(batches_of(4)[0], batch_size=4))
    assert trainer.state.global_step == 0
    assert_same(dict(network.state_dict()), dict(before))


@pytest.mark.parametrize("loss", [torch.nn.MSELoss(), torch.nn.L1Loss(), torch.nn.SmoothL1Loss()])
def test_a_target_that_would_be_broadcast_is_refused_before_the_first_step(loss, tmp_path):
    batch = batches_of(4)[0]
    data = BaseDataManager({**batch, "label": batch["label"][:, 0]}, batch_size=4)
    trainer = trainer_of(tmp_path, losses={"mse": loss})
    with pytest.raises(DataError, match=r"a loss \(mse\) does not fit its target: Using a target size"):
        trainer.train(1, data)
    assert trainer.state.global_step == 0


def test_a_loss_class_in_place_of_an_instance_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"losses\['mse'\] is the class MSELoss; pass an instance, MSELoss\(\)"):
        trainer_of(tmp_path, losses={"mse": torch.nn.MSELoss})


def test_a_key_mapping_of_an_argument_that_the_network_does_not_take_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"key_mapping names 'xx', but Net takes no such argument; did you mean 'x'"):
        trainer_of(tmp_path, key_mapping={"xx": "data"})
