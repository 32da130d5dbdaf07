"""The losses of the PyTorch backend: their formulas, extremes, gradients, and what users of MONAI get."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from loss_numbers import CASES  # noqa: E402

import delira.training.losses as shown  # noqa: E402
from delira.data_loading import BaseDataManager  # noqa: E402
from delira.errors import ConfigError, DataError  # noqa: E402
from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import PyTorchNetworkTrainer  # noqa: E402
from delira.training.losses import (  # noqa: E402
    BCEFocalLossLogitPyTorch,
    BCEFocalLossPyTorch,
    DiceCELossPyTorch,
    DiceLossPyTorch,
    TverskyLossPyTorch,
)

ALL = [BCEFocalLossPyTorch, BCEFocalLossLogitPyTorch, DiceLossPyTorch, DiceCELossPyTorch, TverskyLossPyTorch]
OF_LOGITS = [loss for loss in ALL if loss is not BCEFocalLossPyTorch]
REDUCED = [loss for loss in ALL if loss is not DiceCELossPyTorch]
EXTREMES = (torch.float16, torch.bfloat16, torch.float32)


@pytest.fixture
def masks():
    """Logits of shape (2, 3, 5, 4) and class numbers of shape (2, 5, 4)."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(2, 3, 5, 4, generator=generator)
    return logits, torch.randint(0, 3, (2, 5, 4), generator=generator)


def one_hot(numbers, n):
    return torch.nn.functional.one_hot(numbers, n).movedim(-1, 1)


# ------------------------------------------------------------------ formulas


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_loss_is_its_formula(case, dtype):
    loss = getattr(shown, f"{case.loss}PyTorch")(**case.arguments)
    value = loss(torch.tensor(case.prediction, dtype=dtype), torch.tensor(case.target))
    assert value.dtype is dtype
    assert np.shape(case.expected) == tuple(value.shape)
    np.testing.assert_allclose(value.numpy(), case.expected, rtol=2e-6, atol=2e-7)


def test_focal_losses_of_logits_and_of_probabilities_agree(masks):
    logits, numbers = masks
    for alpha in (None, 0.25, 1.0):
        of_logits = BCEFocalLossLogitPyTorch(alpha, 1.5, "none")(logits, numbers)
        torch.testing.assert_close(of_logits, BCEFocalLossPyTorch(alpha, 1.5, "none")(logits.sigmoid(), numbers))


def test_focal_loss_without_focus_is_cross_entropy(masks):
    logits, numbers = masks
    target = one_hot(numbers, 3).float()
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, target)
    torch.testing.assert_close(BCEFocalLossLogitPyTorch(gamma=0)(logits, target), expected)
    torch.testing.assert_close(BCEFocalLossPyTorch(gamma=0)(logits.sigmoid(), target), expected)


def test_cross_entropy_beside_dice_is_that_of_torch(masks):
    logits, numbers = masks
    value = DiceCELossPyTorch(dice_weight=0.0)(logits, numbers)
    torch.testing.assert_close(value, torch.nn.functional.cross_entropy(logits, numbers))


@pytest.mark.slow  # the import of monai takes 7 seconds
@pytest.mark.parametrize(
    ("ours", "theirs", "arguments", "their_arguments"),
    [
        (DiceLossPyTorch, "DiceLoss", {}, {}),
        (DiceLossPyTorch, "DiceLoss", {"include_background": False}, {"include_background": False}),
        (DiceLossPyTorch, "DiceLoss", {"batch": True}, {"batch": True}),
        (DiceLossPyTorch, "DiceLoss", {"squared": True}, {"squared_pred": True}),
        (DiceCELossPyTorch, "DiceCELoss", {}, {}),
        (DiceCELossPyTorch, "DiceCELoss", {"dice_weight": 2.0, "ce_weight": 0.5, "include_background": False},
         {"lambda_dice": 2.0, "lambda_ce": 0.5, "include_background": False}),
        (TverskyLossPyTorch, "TverskyLoss", {}, {"alpha": 0.3, "beta": 0.7}),
        (TverskyLossPyTorch, "TverskyLoss", {"alpha": 0.9, "beta": 0.2, "smooth": 1.0, "batch": True},
         {"alpha": 0.9, "beta": 0.2, "smooth_nr": 1.0, "smooth_dr": 1.0, "batch": True}),
    ],
)  # fmt: skip
def test_overlap_losses_are_those_of_monai(masks, ours, theirs, arguments, their_arguments):
    losses = pytest.importorskip("monai.losses")
    logits, numbers = masks
    expected = getattr(losses, theirs)(to_onehot_y=True, softmax=True, **their_arguments)(logits, numbers[:, None])
    torch.testing.assert_close(ours(**arguments)(logits, numbers), expected)


@pytest.mark.slow
def test_the_focal_loss_is_that_of_monai(masks):
    losses = pytest.importorskip("monai.losses")
    logits, numbers = masks
    expected = losses.FocalLoss(gamma=1.5, alpha=0.25)(logits, one_hot(numbers, 3))
    torch.testing.assert_close(BCEFocalLossLogitPyTorch(0.25, 1.5)(logits, numbers), expected)


# ------------------------------------------------------------------ targets


@pytest.mark.parametrize("loss", ALL)
def test_class_numbers_and_masks_of_every_kind_give_the_same(loss, masks):
    logits, numbers = masks
    prediction = logits.sigmoid() if loss is BCEFocalLossPyTorch else logits
    expected = loss()(prediction, one_hot(numbers, 3).float())
    for target in (numbers, numbers[:, None], numbers.to(torch.uint8), numbers.float(), one_hot(numbers, 3).bool()):
        assert torch.equal(loss()(prediction, target), expected)


@pytest.mark.parametrize("loss", ALL)
def test_one_channel_takes_masks_with_and_without_it(loss, masks):
    prediction, target = masks[0][:, :1].sigmoid(), masks[1] > 0
    assert torch.equal(loss()(prediction, target), loss()(prediction, target[:, None].float()))


@pytest.mark.parametrize("loss", ALL)
def test_labels_of_whole_images_work_too(loss):
    prediction = torch.tensor([[0.2, 0.7, 0.1], [0.5, 0.1, 0.4]])
    value = loss()(prediction, torch.tensor([1, 0]))
    assert torch.equal(value, loss()(prediction, torch.tensor([[0.0, 1, 0], [1, 0, 0]])))


@pytest.mark.parametrize("loss", ALL)
def test_a_target_that_does_not_fit_is_refused(loss, masks):
    with pytest.raises(DataError, match=r"prediction has shape \(2, 3, 5, 4\) and the target \(2, 5\)"):
        loss()(masks[0].sigmoid(), masks[1][..., 0])


def test_a_class_that_is_not_there_is_refused(masks):
    with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes"):
        DiceLossPyTorch()(masks[0], masks[1] + 1)


def test_without_background_one_channel_leaves_nothing():
    with pytest.raises(DataError, match="include_background=False leaves nothing"):
        DiceLossPyTorch(include_background=False)(torch.zeros(2, 1, 3), torch.zeros(2, 3))


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize("loss", REDUCED)
def test_reductions_are_those_of_the_single_values(loss, masks):
    prediction, target = masks[0].sigmoid(), masks[1]
    values = loss(reduction="none")(prediction, target)
    assert values.shape == (prediction.shape if "Focal" in loss.__name__ else (2, 3))
    for reduction in ("mean", "elementwise_mean"):
        torch.testing.assert_close(loss(reduction=reduction)(prediction, target), values.mean())
    torch.testing.assert_close(loss(reduction="sum")(prediction, target), values.sum())


@pytest.mark.parametrize("loss", REDUCED)
def test_another_reduction_is_refused(loss):
    with pytest.raises(ConfigError, match="reduction must be 'none', 'mean', 'elementwise_mean' or 'sum', got 'avg'"):
        loss(reduction="avg")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BCEFocalLossPyTorch(alpha=25), "alpha must be between 0 and 1"),
        (lambda: BCEFocalLossLogitPyTorch(gamma=-1), "gamma must be at least 0"),
        (lambda: DiceLossPyTorch(activation="relu"), "activation must be 'auto', 'softmax', 'sigmoid' or None"),
        (lambda: DiceLossPyTorch(smooth=-1), "smooth must be at least 0"),
        (lambda: DiceCELossPyTorch(activation=None), "activation must be 'auto', 'softmax' or 'sigmoid'"),
        (lambda: TverskyLossPyTorch(beta=-0.1), "alpha and beta must be at least 0"),
    ],
)
def test_settings_outside_their_range_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


# ------------------------------------------------------------------ extremes


@pytest.mark.parametrize("dtype", EXTREMES)
@pytest.mark.parametrize("loss", OF_LOGITS)
@pytest.mark.parametrize("right", [True, False])
def test_huge_logits_have_finite_losses_and_gradients(loss, dtype, right):
    target = torch.tensor([[[1, 0, 1]], [[0, 0, 1]]])
    sign = 2.0 * target - 1 if right else 1 - 2.0 * target
    logits = (1e4 * sign).to(dtype).requires_grad_()
    value = loss()(logits, target)
    value.backward()
    assert value.dtype is torch.float32
    assert torch.isfinite(value)
    assert torch.isfinite(logits.grad).all()
    assert value < 1e-5 if right else value > 0.5


@pytest.mark.parametrize("gamma", [0, 0.5, 2])
@pytest.mark.parametrize("dtype", EXTREMES)
def test_certain_probabilities_have_finite_losses_and_gradients(dtype, gamma):
    p = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=dtype, requires_grad=True)
    value = BCEFocalLossPyTorch(gamma=gamma, reduction="none")(p, torch.tensor([0, 1, 1, 0]))
    value.sum().backward()
    assert torch.isfinite(p.grad).all()
    assert (value[:2].abs() < 1e-6).all()
    assert (value[2:] > 9).all()
    assert p.grad[2] < 0 < p.grad[3]  # a wrong answer is corrected, however certain it is


@pytest.mark.parametrize("dtype", EXTREMES)
def test_sums_over_large_images_do_not_overflow(dtype):
    prediction = torch.ones(1, 1, 400, 400, dtype=dtype)  # 160,000 pixels; float16 ends at 65,504
    target = torch.ones(1, 400, 400, dtype=torch.uint8)
    for loss in (DiceLossPyTorch(activation=None), TverskyLossPyTorch(activation=None)):
        assert float(loss(prediction, target)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("loss", [DiceLossPyTorch, TverskyLossPyTorch])
def test_empty_masks_cost_nothing_if_nothing_is_predicted(loss):
    p = torch.zeros(2, 1, 8, requires_grad=True)
    value = loss(activation=None)(p, torch.zeros(2, 8))
    value.backward()
    assert value == 0
    assert torch.isfinite(p.grad).all()
    assert loss(activation=None)(torch.full((2, 1, 8), 0.5), torch.zeros(2, 8)) > 0.99


@pytest.mark.parametrize(
    "loss",
    [
        BCEFocalLossPyTorch(0.25, 2), BCEFocalLossLogitPyTorch(0.25, 1.5), DiceLossPyTorch(),
        DiceLossPyTorch(squared=True, include_background=False), DiceCELossPyTorch(), TverskyLossPyTorch(batch=True),
    ],
    ids=lambda loss: type(loss).__name__,
)  # fmt: skip
def test_gradients_are_those_of_finite_differences(loss, masks):
    prediction = masks[0][..., :2].double().sigmoid().requires_grad_()
    assert torch.autograd.gradcheck(lambda value: loss(value, masks[1][..., :2]), (prediction,))


@pytest.mark.parametrize("loss", ALL)
def test_neither_prediction_nor_target_is_changed(loss, masks):
    prediction, target = masks[0].sigmoid(), masks[1]
    before = prediction.clone(), target.clone()
    loss()(prediction, target)
    assert torch.equal(prediction, before[0])
    assert torch.equal(target, before[1])


# ------------------------------------------------------------------ in a training


class Pixelwise(AbstractPyTorchNetwork):
    """One convolution."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 3, padding=1)

    def forward(self, x):
        return {"pred": self.conv(x)}


@pytest.mark.parametrize("mixed_precision", [False, "bf16"])
@pytest.mark.parametrize("loss", OF_LOGITS)
def test_a_training_lowers_it(loss, mixed_precision, tmp_path):
    rng = np.random.default_rng(0)
    images = rng.normal(size=(8, 1, 6, 6)).astype(np.float32)
    manager = BaseDataManager({"data": images, "label": (images[:, 0] > 0.5).astype(np.int64)}, batch_size=4)
    torch.manual_seed(0)
    trainer = PyTorchNetworkTrainer(
        Pixelwise(), tmp_path, losses={"loss": loss()}, optimizer_cls=torch.optim.Adam, optimizer_params={"lr": 0.05},
        mixed_precision=mixed_precision, save_freq=100, logging_type=None, verbose=False,
    )  # fmt: skip
    trainer.train(8, manager)
    values = [row["loss"] for row in trainer.state.history]
    assert values[-1] < 0.9 * values[0]
