"""Whole cases are validated and tested by windows, in the way that was asked for, and as by hand."""

import functools

import numpy as np
import pytest
from small_backends import toy_kit

import delira
from delira import models, training
from delira.data_loading import BaseDataManager, Patches, SequentialSampler
from delira.errors import ConfigError
from delira.training import losses

WINDOW, FLIPS = delira.SlidingWindow(4, overlap=0.5, batch_size=3), delira.TestTimeAugmentation(flips=(0, 1))
ENDINGS = {"torch": "PyTorch", "jax": "Jax", "tensorflow": "Tf"}


def pixels_right(y_true, y_pred):
    return float((np.asarray(y_pred).argmax(1) == y_true).mean())


@functools.cache
def cases(n=6, shape=(9, 11)):
    drawn = np.random.default_rng(0)
    label = drawn.integers(0, 3, (n, *shape))
    return {"data": (label[:, None] + drawn.normal(size=(n, 1, *shape))).astype(np.float32), "label": label}


def as_list(arrays):
    return [{name: array[number] for name, array in arrays.items()} for number in range(len(arrays["data"]))]


def networks_of_windows():
    """A network of torch that takes what is as large as a window, and nothing else."""
    torch = pytest.importorskip("torch")

    class OfWindows(models.AbstractPyTorchNetwork):
        def __init__(self, side):
            super().__init__(side=side)
            self.conv, self.side = torch.nn.Conv2d(1, 3, 3, padding=1), side

        def forward(self, x):
            if tuple(x.shape[2:]) != (self.side,) * 2:
                raise ValueError(f"{tuple(x.shape)} is no window")
            return {"pred": self.conv(x)}

    return OfWindows, torch.nn.CrossEntropyLoss(), torch.optim.SGD


def kfold(path, **settings):
    network, loss, optimizer = networks_of_windows()
    experiment = training.PyTorchExperiment(
        {"model": {"side": 4}}, network, name="windows", save_path=path, n_epochs=2, seed=1, losses={"ce": loss},
        optimizer_cls=optimizer, optimizer_params={"lr": 0.1}, val_metrics={"right": pixels_right},
        logging_type=None, verbose=False, **settings,
    )  # fmt: skip
    patches = Patches(as_list(cases()), (4, 4), per_case=2)
    return network, experiment.kfold(BaseDataManager(patches, 4), num_splits=2, val_split=0.5, random_seed=0)


@pytest.mark.parametrize("tta", [None, FLIPS])
def test_validation_and_test_see_whole_cases_by_windows(tmp_path, tta):
    network, result = kfold(tmp_path, val_inference=WINDOW, val_tta=tta)
    for fold in result.folds:
        made = fold.load_network(objects={network.__name__: network})
        by_hand = []
        for index in fold.test_indices:
            x = cases()["data"][index : index + 1]

            def call(batch, made=made):
                return training.Predictor(made).predict(batch)

            flips = [(), (2,), (3,), (2, 3)] if tta else [()]
            said = [
                np.flip(WINDOW(call, {"data": np.ascontiguousarray(np.flip(x, axes))}, ["data"])["pred"], axes)
                for axes in flips
            ]
            by_hand.append(np.mean(said, axis=0)[0])
        np.testing.assert_allclose(fold.predictions["pred"], by_hand, rtol=1e-5, atol=1e-6)
        truth = cases()["label"][fold.test_indices]
        assert fold.means()["right"] == pytest.approx(pixels_right(truth, fold.predictions["pred"]))
        # the same is said of the validation, of the epoch whose weights were tested
        val = {name: array[fold.val_indices] for name, array in cases().items()}
        said = delira.predict(made, val, inference=WINDOW, tta=tta, batch_size=1)["pred"]
        assert fold.history[-1]["val_right"] == pytest.approx(pixels_right(val["label"], said))
        # and new cases are predicted in this way, unless another is asked for
        again = delira.predict(fold, val, objects={network.__name__: network}, batch_size=1)["pred"]
        np.testing.assert_array_equal(again, said)
        with pytest.raises(ValueError, match="is no window"):
            delira.predict(fold, val, objects={network.__name__: network}, inference=None)


def test_without_windows_the_network_is_told_what_it_cannot_take(tmp_path):
    with pytest.raises(ValueError, match="is no window"):
        kfold(tmp_path)


@pytest.mark.parametrize(
    "framework", ["torch", *(pytest.param(one, marks=pytest.mark.slow) for one in ("jax", "tensorflow"))]
)
def test_windows_larger_than_some_cases_pad_them_in_training_too(framework, tmp_path):
    pytest.importorskip({"jax": "flax"}.get(framework, framework))
    ending = ENDINGS[framework]
    build = {
        "torch": lambda: __import__("torch").optim.SGD,
        "jax": lambda: __import__("optax").sgd,
        "tensorflow": lambda: __import__("keras").optimizers.SGD,
    }[framework]
    window = delira.SlidingWindow((16, 8), overlap=0.25)
    result = getattr(training, f"{ending}Experiment")(
        {"model": {"num_classes": 3, "channels": (4, 4), "n_units": 1}}, getattr(models, f"ResidualUNet2d{ending}"),
        n_epochs=1, name="padded", save_path=tmp_path, losses={"ce": getattr(losses, f"DiceCELoss{ending}")()},
        optimizer_cls=build(), optimizer_params={"lr": 0.01}, val_metrics={"right": pixels_right},
        val_inference=window, logging_type=None, verbose=False,
    ).kfold(
        BaseDataManager(Patches(as_list(cases()), (8, 8), per_case=1), 3), num_splits=2, val_split=None
    )  # fmt: skip
    for fold in result.folds:
        test = {"data": cases()["data"][fold.test_indices]}
        assert fold.predictions["pred"].shape == (3, 3, 9, 11)
        np.testing.assert_allclose(
            delira.predict(fold, test, batch_size=1)["pred"], fold.predictions["pred"], rtol=1e-5, atol=1e-6
        )


def test_a_test_by_hand_is_made_in_this_way_too(tmp_path):
    network, loss, optimizer = networks_of_windows()
    experiment = training.PyTorchExperiment(
        {"model": {"side": 4}}, network, save_path=tmp_path, n_epochs=1, losses={"ce": loss}, optimizer_cls=optimizer,
        optimizer_params={"lr": 0.1}, val_inference=WINDOW, val_tta=FLIPS, logging_type=None, verbose=False,
    )  # fmt: skip
    trained = experiment.run(BaseDataManager(Patches(as_list(cases()), (4, 4), per_case=2), 4))
    whole = BaseDataManager(cases(), 2, sampler_cls=SequentialSampler)
    predictions, metrics = experiment.test(trained, whole, {"right": pixels_right})
    said = delira.predict(trained, cases(), inference=WINDOW, tta=FLIPS)["pred"]
    np.testing.assert_allclose(predictions["pred"], said, rtol=1e-5, atol=1e-6)
    assert metrics["right"] == pytest.approx(pixels_right(cases()["label"], said))
    predictor = experiment.setup(training=False, model=trained)
    np.testing.assert_allclose(predictor.predict({"data": cases()["data"]})["pred"], said, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["val_inference", "val_tta"])
@pytest.mark.parametrize("value", ["gaussian", 4, lambda batch: batch])
def test_what_is_no_way_of_prediction_is_refused_by_name(tmp_path, name, value):
    kit = toy_kit()
    with pytest.raises(ConfigError, match=name):
        kit.trainer(tmp_path, **{name: value})


@pytest.mark.parametrize("given", [{"val_inference": WINDOW}, {"val_tta": FLIPS}])
def test_a_trial_refuses_them_by_name_and_its_experiment_has_them(tmp_path, given):
    torch = pytest.importorskip("torch")
    module = torch.nn.Conv2d(1, 3, 3, padding=1)
    parts = (module, torch.optim.SGD(module.parameters(), 0.1), torch.nn.CrossEntropyLoss(), ["loss"])
    (name,) = given
    with pytest.raises(ConfigError, match=rf"{name}.*to_experiment"):
        delira.Trial(*parts, verbose=0, **given)
    trial = delira.Trial(*parts, verbose=0)
    experiment = trial.to_experiment(save_path=tmp_path, num_epochs=1, val_metrics={"right": pixels_right}, **given)
    result = experiment.kfold(BaseDataManager(cases(), 3), num_splits=2, val_split=None, verbose=False)
    fold = result.folds[0]
    network = fold.load_network(network=experiment.model_cls())
    said = delira.predict(network, {"data": cases()["data"][fold.test_indices]}, batch_size=3, **{
        {"val_inference": "inference", "val_tta": "tta"}[name]: given[name]
    })["pred"]  # fmt: skip
    np.testing.assert_allclose(fold.predictions["pred"], said, rtol=1e-5, atol=1e-6)
