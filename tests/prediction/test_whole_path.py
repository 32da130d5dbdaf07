"""Real images are learned from in folds, and the folds predict others as one model: digits, and slices of a brain."""

import functools

import numpy as np
import pytest

import delira
from delira import models, training
from delira.data_loading import BaseDataManager, Patches
from delira.metrics import DicePerClass, MetricSet, accuracy
from delira.training import losses

ENDINGS = {"torch": "PyTorch", "jax": "Jax"}
PACKAGES = {"jax": "flax"}
CLASSES = ["outside", "grey", "white"]


def torch_digits():
    import torch

    class TorchDigits(models.AbstractPyTorchNetwork):
        def __init__(self, n_hidden: int):
            super().__init__(n_hidden=n_hidden)
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(64, n_hidden), torch.nn.ReLU(), torch.nn.Linear(n_hidden, 10)
            )

        def forward(self, x):
            return {"pred": self.layers(x)}

    return TorchDigits, torch.nn.CrossEntropyLoss(), torch.optim.Adam


def jax_digits():
    import optax
    from flax import nnx

    class JaxDigits(models.AbstractJaxNetwork):
        def __init__(self, n_hidden: int):
            super().__init__(n_hidden=n_hidden)
            self.hidden, self.head = nnx.Linear(64, n_hidden, rngs=self.rngs), nnx.Linear(n_hidden, 10, rngs=self.rngs)

        def __call__(self, x):
            return {"pred": self.head(nnx.relu(self.hidden(x)))}

    def cross_entropy(pred, label):
        return optax.softmax_cross_entropy_with_integer_labels(pred, label).mean()

    return JaxDigits, cross_entropy, optax.adam


def probabilities(logits):
    shares = np.exp(logits - logits.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


@pytest.mark.parametrize("framework", ["torch", pytest.param("jax", marks=pytest.mark.slow)])
def test_digits_are_told_apart_by_the_folds_together(framework, tmp_path):
    pytest.importorskip(PACKAGES.get(framework, framework))
    sklearn = pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    pytest.importorskip("skops", reason="what was fitted is kept by skops")
    pixels, digits = sklearn.datasets.load_digits(return_X_y=True)
    pixels = np.float32(pixels)
    network, loss, optimizer = {"torch": torch_digits, "jax": jax_digits}[framework]()
    data = BaseDataManager({"data": pixels[:1200], "label": digits[:1200]}, batch_size=32)
    result = getattr(training, f"{ENDINGS[framework]}Experiment")(
        {"model": {"n_hidden": 24}}, network, n_epochs=6, name="digits", save_path=tmp_path / "runs",
        losses={"ce": loss}, optimizer_cls=optimizer, optimizer_params={"lr": 1e-2},
        val_metrics={"accuracy": accuracy}, val_score_key="accuracy",
    ).kfold(
        data, num_splits=3, split_type="stratified", shuffle=True, random_seed=0, verbose=False,
        preprocessing={"data": sklearn.preprocessing.StandardScaler()},
    )  # fmt: skip
    held_out, truth, known = {"data": pixels[1200:]}, digits[1200:], {network.__name__: network}

    # each fold has a scaler of its own, which comes with its network
    members = [delira.predict(fold.path, held_out, objects=known)["pred"] for fold in result.folds]
    ensemble = result.ensemble(objects=known)
    together = ensemble.predict(held_out)
    np.testing.assert_allclose(together["pred"], np.mean([*map(probabilities, members)], axis=0), rtol=1e-4, atol=1e-6)
    scores = [np.mean(member.argmax(1) == truth) for member in members]
    score = np.mean(together["pred"].argmax(1) == truth)
    assert score >= np.mean(scores) > 0.85
    wrong = together["pred"].argmax(1) != truth
    entropy = together["spread"]["pred"]["entropy"]
    assert entropy[wrong].mean() > 1.5 * entropy[~wrong].mean(), "it knows what it does not know"

    ensemble.save(tmp_path / "kept")
    for source in (result.path, tmp_path / "kept", delira.load_ensemble(tmp_path / "kept", objects=known)):
        again = delira.predict(source, held_out, objects=known)
        np.testing.assert_array_equal(again["pred"], together["pred"])
        np.testing.assert_array_equal(again["spread"]["pred"]["sd"], together["spread"]["pred"]["sd"])


@functools.cache
def brain() -> tuple[np.ndarray, np.ndarray]:
    """Slices of a brain, float32 of shape (n, y, x), and where grey (1) and white matter (2) are."""
    datasets = pytest.importorskip("nilearn.datasets", reason="the brain comes with nilearn")
    load = datasets.load_mni152_template, datasets.load_mni152_gm_template, datasets.load_mni152_wm_template
    t1, grey, white = (of(resolution=2).get_fdata(dtype=np.float32)[:, :, 24:60:3].T for of in load)
    tissue = np.where(np.maximum(grey, white) < 0.5, 0, np.where(grey >= white, 1, 2))
    noisy = t1 / t1.max() + np.random.default_rng(0).normal(0, 0.05, t1.shape)
    return np.float32(4 * noisy - 2), tissue


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_slices_of_a_brain_are_segmented_by_patches_windows_and_folds(framework, tmp_path):
    pytest.importorskip(PACKAGES.get(framework, framework))
    images, tissue = brain()
    ending = ENDINGS[framework]
    slab = np.arange(9) // 3  # slices beside each other are alike
    cases = [
        {"data": image[None], "label": label, "slab": where}
        for image, label, where in zip(images[:9], tissue[:9], slab, strict=True)
    ]
    if framework == "torch":
        from torch.optim import Adam
    else:
        from optax import adam as Adam
    window = delira.SlidingWindow(48, overlap=0.25, batch_size=3)
    result = getattr(training, f"{ending}Experiment")(
        {"model": {"num_classes": 3, "channels": (8, 16), "n_units": 1}}, getattr(models, f"ResidualUNet2d{ending}"),
        n_epochs=6, name="brain", save_path=tmp_path / "runs", losses={"ce": getattr(losses, f"DiceCELoss{ending}")()},
        optimizer_cls=Adam, optimizer_params={"lr": 1e-2},
        val_metrics={"dice": DicePerClass(CLASSES)}, val_inference=window,
    ).kfold(
        BaseDataManager(Patches(cases, (48, 48), per_case=4), batch_size=4),
        num_splits=3, groups_key="slab", verbose=False, val_split=None,
    )  # fmt: skip
    assert len(result.cases["dice.grey"]) == 9, "each slice was tested once, as a whole"
    assert "grey" in result.class_table()

    new, truth = images[9:], tissue[9:]
    (tmp_path / "new").mkdir()
    for number, image in enumerate(new):
        np.save(tmp_path / "new" / f"slice_{number}.npy", image)
    ensemble = result.ensemble()
    assert repr(ensemble.inference) == repr(window), "new slices are predicted as those of the validation were"
    together = ensemble.predict({"data": new[:, None]})
    assert together["pred"].shape == (len(new), 3, *new.shape[1:])
    by_class = MetricSet({"dice": DicePerClass(CLASSES)})
    by_class.update({"label": truth, "pred": together["pred"]})
    found = by_class.compute()
    assert min(found["dice.grey"].mean(), found["dice.white"].mean()) > 0.7

    files = delira.predict(result.path, tmp_path / "new", out=tmp_path / "out", keep="labels")
    assert [file.name for file in files] == [f"slice_{number}.npz" for number in range(len(new))]
    for file, scores in zip(files, together["pred"], strict=True):
        with np.load(file) as written:
            np.testing.assert_array_equal(written["pred"], scores.argmax(0))

    # a brain has two sides: its mirror image is one, too
    mirrored = ensemble.predict({"data": np.ascontiguousarray(new[:, None, :, ::-1])})["pred"][..., ::-1]
    both = ensemble.predict({"data": new[:, None]}, tta=delira.TestTimeAugmentation(flips=1))["pred"]
    assert both.shape == together["pred"].shape
    np.testing.assert_allclose(both.sum(1), 1, atol=1e-5)
    assert np.abs(both - (together["pred"] + mirrored) / 2).mean() < 0.02  # of logits there, of probabilities here
