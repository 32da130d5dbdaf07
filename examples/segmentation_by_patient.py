"""Segmentation of volumes from files to predictions of new patients: patches, folds by patient, one model of the folds.

The volumes are made up: 24 scans of 12 patients with thick slices, an organ (1) and a lesion in it (2); so the numbers
say nothing about medicine. The networks learn from patches, and are validated and tested on whole scans. In the end
three new scans are predicted by all folds as one model. ``--backend tensorflow`` (or ``jax``, whose convolutions of
volumes are slow without a GPU) does the same with a network of another framework. All is written below ``runs/scans``.
"""

import argparse
import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np

import delira
from delira import models, training
from delira.data_loading import BaseDataManager, Nii3DLazyDataset, Patches, load_nii
from delira.metrics import DicePerClass, HausdorffPerClass, MetricSet
from delira.training import losses

try:
    import nibabel
except ModuleNotFoundError:
    raise SystemExit("This example needs a package that reads NIfTI files: pip install delira[medical]") from None

SHAPE, SPACING = (20, 48, 48), (4.0, 1.5, 1.5)  # along z, y, x; the spacing in mm
SIZE = (16, 32, 32)  # of a patch
CLASSES = ["background", "organ", "lesion"]


def make_scan(patient: int, scan: int) -> tuple[np.ndarray, np.ndarray]:
    """Image and mask of shape (z, y, x); scans of one patient are alike, but for their noise and position."""
    anatomy, visit = np.random.default_rng(patient), np.random.default_rng([patient, scan])
    radii, bend = anatomy.uniform((22, 15, 15), (30, 24, 24)), anatomy.uniform(0, 2 * np.pi, (2, 3))
    voxels = np.moveaxis(np.indices(SHAPE), 0, -1)
    place = (voxels - np.array(SHAPE) / 2) * SPACING - visit.normal(0, 3, 3)  # in mm
    shape = ((place / radii) ** 2).sum(-1) + 0.3 * np.sin(place / 12 + bend[0]).prod(-1)
    within = np.linalg.norm(place - radii * anatomy.uniform(-0.4, 0.4, 3), axis=-1) < anatomy.uniform(6, 9)
    beside = np.linalg.norm(place - radii * [0, 1.4, 1.4], axis=-1) < 6  # as bright as a lesion, but outside
    mask = np.where(within & (shape < 1), 2, shape < 1)
    shown = np.where(beside & (mask == 0), 2.0, mask) + 0.3 * np.sin(place / 20 + bend[1])[..., 0]
    return np.float32(shown + visit.normal(0, 0.4, SHAPE)), np.uint8(mask)


def write(volume: np.ndarray, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(volume.T, np.diag([*SPACING[::-1], 1])), file)  # NIfTI counts x, y, z


def mirror(batch, rng):
    """Mirror at random; ``rng`` belongs to the batch, so a resumed run draws the same."""
    axes = tuple(axis for axis in (-3, -2, -1) if rng.random() < 0.5)
    return {**batch, **{key: np.flip(batch[key], axes) for key in ("data", "label")}}


def experiment_with(backend: str) -> training.BaseExperiment:
    """The same training with the classes of one framework."""
    if backend == "torch":
        from torch.optim import Adam
    elif backend == "jax":
        from optax import adam as Adam
    else:
        from keras.optimizers import Adam
    ending = {"torch": "PyTorch", "tensorflow": "Tf", "jax": "Jax"}[backend]
    return getattr(training, f"{ending}Experiment")(
        {"model": {"num_classes": 3, "channels": (8, 16, 32), "strides": [(1, 2, 2), 2], "n_units": 1}},
        getattr(models, f"ResidualUNet3d{ending}"), name="scans", save_path="runs", n_epochs=10, seed=0,
        losses={"dice_ce": getattr(losses, f"DiceCELoss{ending}")()},
        optimizer_cls=Adam, optimizer_params={"lr": 3e-3},
        val_metrics={"dice": DicePerClass(CLASSES), "hd95": HausdorffPerClass(CLASSES, 95, spacing="spacing")},
        val_score_key="dice", val_inference=delira.SlidingWindow(SIZE, batch_size=4),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="torch", choices=("torch", "tensorflow", "jax"))
    experiment, folder = experiment_with(parser.parse_args().backend), Path("runs/scans")
    for patient, scan in itertools.product(range(12), range(2)):
        for name, volume in zip(("image", "mask"), make_scan(patient, scan), strict=True):
            write(volume, folder / "cases" / f"patient_{patient:02d}_scan_{scan}" / f"{name}.nii.gz")

    cases = Nii3DLazyDataset(folder / "cases", img_files="image.nii.gz", label_file="mask.nii.gz")
    cases.set_labels("patient", [name[:10] for name in cases.case_names])  # "patient_07"
    data = BaseDataManager(Patches(cases, SIZE, per_case=4), batch_size=4, n_process_augmentation=2)
    result = experiment.kfold(
        data, num_splits=3, groups_key="patient", shuffle=True, random_seed=0, train_kwargs={"transforms": mirror}
    )
    print(f"{result}\n\nreport  {result.to_html(result.path / 'report' / 'report.html')}\n")

    new = {f"patient_{patient}": make_scan(patient, 0) for patient in range(12, 15)}
    for name, (image, _) in new.items():
        write(image, folder / "new" / f"{name}.nii.gz")
    files = result.ensemble().predict(  # in windows, as the validation was; in eight positions each
        folder / "new", keep="labels", out=result.path / "new", tta=delira.TestTimeAugmentation(flips=(0, 1, 2))
    )
    for file in files:
        labels, mask = load_nii(file)[None], new[file.name.removesuffix(".nii.gz")][1][None]
        dice = MetricSet({"dice": DicePerClass(CLASSES)})
        dice.update({"label": mask, "pred": labels})
        print(f"{file}  " + "  ".join(f"{name} {value[0]:.3f}" for name, value in dice.compute().items()))

    # one fold alone, from a shell: delira predict runs/scans/…/fold_00 runs/scans/new --out … --keep labels
    fold, out = str(result.folds[0].path), str(result.path / "new_by_fold_0")
    words = ["predict", fold, str(folder / "new"), "--out", out, "--keep", "labels"]
    subprocess.run([sys.executable, "-m", "delira", *words], check=True)


if __name__ == "__main__":
    main()
