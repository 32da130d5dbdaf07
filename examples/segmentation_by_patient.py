"""Segmentation with folds that keep a patient together, files that are read when needed, and augmentation.

The picture is real: 24 ancient coins, which scikit-image brings. The patients are made up: each coin is one, and six
tiles of it are its slices. The masks are Otsu's threshold, so the numbers say nothing about medicine. Grouping matters
all the same: the tiles of a coin share most of their pixels. Everything is written below ``runs/coins``.
"""

import itertools
from pathlib import Path

import numpy as np
from torch.nn import BatchNorm2d, BCEWithLogitsLoss, Conv2d, ReLU, Sequential
from torch.optim import Adam

from delira.data_loading import AbstractDataset, BaseDataManager
from delira.metrics import dice, per_sample
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchExperiment

try:
    from skimage.data import coins
    from skimage.filters import gaussian, threshold_otsu
except ModuleNotFoundError:
    raise SystemExit("This example needs a picture of scikit-image: pip install scikit-image") from None


def write_tiles(folder: Path) -> list[Path]:
    """Cut the picture into files, six for each coin."""
    picture, paths = coins() / np.float32(255), []
    folder.mkdir(parents=True, exist_ok=True)
    for row, column in itertools.product(range(4), range(6)):
        coin = picture[22 + 69 * row :, 9 + 61 * column :][:69, :61]
        mask = np.float32((smooth := gaussian(coin, 1.5)) > threshold_otsu(smooth))
        for number, (top, left) in enumerate(itertools.product((0, 10, 20), (0, 13))):
            tile = np.s_[None, top : top + 48, left : left + 48]
            paths.append(folder / f"coin_{row}{column}_{number}.npz")
            np.savez(paths[-1], data=coin[tile], label=mask[tile], patient=f"coin {row}{column}")
    return paths


class Tiles(AbstractDataset):
    """One file is one sample; it is read each time it is needed."""

    def __init__(self, paths):
        super().__init__()
        self.data = paths

    def __getitem__(self, index):
        with np.load(self.data[index]) as file:
            return dict(file)


class Net(AbstractPyTorchNetwork):
    """Fully convolutional; one logit for each pixel."""

    def __init__(self, width: int):
        super().__init__(width=width)
        first, second, last = Conv2d(1, width, 5, padding=2), Conv2d(width, width, 5, padding=2), Conv2d(width, 1, 1)
        self.layers = Sequential(first, BatchNorm2d(width), ReLU(), second, BatchNorm2d(width), ReLU(), last)

    def forward(self, x):
        return {"pred": self.layers(x)}


@per_sample
def dice_of_logits(y_true, y_pred):
    return dice(y_true, y_pred > 0)


def augment(batch, rng):
    """Mirror at random; ``rng`` belongs to the batch, so a resumed run draws the same."""
    axes = tuple(axis for axis in (2, 3) if rng.random() < 0.5)
    return {**batch, **{key: np.flip(batch[key], axes) for key in ("data", "label")}}


def main() -> None:
    data = BaseDataManager(Tiles(write_tiles(Path("runs/coins/tiles"))), batch_size=16)
    experiment = PyTorchExperiment(
        {"model": {"width": 8}}, Net, n_epochs=10, name="coins", save_path="runs",
        losses={"bce": BCEWithLogitsLoss()}, optimizer_cls=Adam, optimizer_params={"lr": 1e-2},
        val_metrics={"dice": dice_of_logits}, val_score_key="dice", val_score_mode="max",
    )  # fmt: skip
    result = experiment.kfold(
        data, num_splits=4, shuffle=True, random_seed=0, groups_key="patient", train_kwargs={"transforms": augment}
    )
    print(f"{result}\n\nreport  {result.to_html(result.path / 'report' / 'report.html')}")


if __name__ == "__main__":
    main()
