"""A metric per class stands for its mean and for one metric of each class, wherever metrics go by name."""

import copy
import pickle

import numpy as np
import pytest

from delira.errors import ConfigError, DataError
from delira.metrics import (
    DicePerClass,
    HausdorffPerClass,
    IoUPerClass,
    MetricList,
    MetricSet,
    SurfaceDice,
    VolumeError,
    kind_of,
)
from delira.metrics.direction import higher_is_better
from delira.metrics.of_cases import case_values, is_mean_of_cases
from delira.metrics.per_class import OfClass, expanded, lacking, mean_of_values
from delira.settings.config import read_settings
from delira.testing.toy import ToyBackend
from delira.utils import yaml_codec

ORGANS = ["background", "liver", "tumour"]
GENERATOR = np.random.default_rng(0)
TRUE, PRED = GENERATOR.integers(0, 3, (7, 5, 6)), GENERATOR.random((7, 3, 5, 6))
TRUE[2][TRUE[2] == 2] = 0
METRICS = {"dice": DicePerClass(ORGANS), "hd": HausdorffPerClass(ORGANS, spacing="mm")}
BATCH = {"label": TRUE, "pred": PRED, "mm": np.tile([2.0, 1.0], (7, 1))}


def seen(metrics, **settings):
    found = MetricSet(metrics, **settings)
    for start in range(0, 7, 3):
        found.update({name: array[start : start + 3] for name, array in BATCH.items()})
    return found


def test_values_are_those_of_each_case_and_class_and_their_mean():
    values = seen(METRICS).compute()
    assert [*values] == ["dice", "dice.liver", "dice.tumour", "hd", "hd.liver", "hd.tumour"]
    cases = np.array([DicePerClass(3).values(*pair) for pair in zip(TRUE, PRED, strict=True)])
    np.testing.assert_array_equal(values["dice.liver"], cases[:, 0])
    np.testing.assert_array_equal(values["dice.tumour"], cases[:, 1])
    np.testing.assert_array_equal(values["dice"], np.nanmean(cases, axis=1))
    assert np.flatnonzero(np.isnan(values["dice.tumour"])).tolist() == [2]


def test_the_values_of_a_case_are_computed_once_for_all_classes(monkeypatch):
    calls = []
    values = DicePerClass.values

    def counted(self, *given, **how):
        calls.append(how)
        return values(self, *given, **how)

    monkeypatch.setattr(DicePerClass, "values", counted)
    seen({"dice": DicePerClass(ORGANS)})
    assert calls == [{"labels": [1, 2]}] * 7
    calls.clear()
    only = expanded({"dice": DicePerClass(ORGANS)})["dice.tumour"]
    seen({"dice.tumour": only})
    assert calls == [{"labels": [2]}] * 7


def test_expanding_twice_changes_nothing_and_a_taken_name_is_refused():
    once = expanded(METRICS)
    assert expanded(once) == once
    assert all(kind_of(metric, name) == "sample" for name, metric in once.items())
    assert lacking({**once, "mae": "mae"}) == tuple(once)
    with pytest.raises(
        ConfigError, match=r"'dice' has a value for each class, one of which is called 'dice.liver' like"
    ):
        MetricSet({"dice": DicePerClass(ORGANS), "dice.liver": lambda y_true, y_pred: 0.0})


def test_classes_read_the_entries_of_their_metric_and_the_spacing_with_them():
    metrics = MetricSet(METRICS, {"dice": ("mask", "outputs.seg"), "hd": ("mask", "outputs.seg")})
    keys = metrics.required_keys()
    assert keys["dice.liver"] == ("mask", "outputs.seg")
    assert keys["hd"] == keys["hd.tumour"] == ("mask", "outputs.seg", "mm")
    assert metrics.entries == {"mask", "outputs.seg", "mm"}
    metrics.update({"mask": TRUE, "outputs": {"seg": PRED}, "mm": BATCH["mm"]})
    for name, values in seen(METRICS).compute().items():
        np.testing.assert_array_equal(metrics.compute()[name], values)


def test_a_pass_goes_on_from_its_state_and_takes_another_one_in():
    whole = seen(METRICS).compute()
    first, second, other = MetricSet(METRICS), MetricSet(METRICS), MetricSet(METRICS)
    first.update({name: array[:3] for name, array in BATCH.items()})
    assert first.is_storable
    second.load_state_dict(first.state_dict())
    other.update({name: array[3:] for name, array in BATCH.items()})
    second.update({name: array[3:] for name, array in BATCH.items()})
    first.merge(other)
    for name, values in whole.items():
        np.testing.assert_array_equal(first.compute()[name], values)
        np.testing.assert_array_equal(second.compute()[name], values)


@pytest.mark.parametrize(
    ("metric", "direction"),
    [
        (DicePerClass(ORGANS), True),
        (SurfaceDice(ORGANS, 1), True),
        (HausdorffPerClass(ORGANS), False),
        (VolumeError(ORGANS), False),
        (VolumeError(ORGANS, signed=True), None),
    ],
)
def test_the_direction_is_known_under_any_name(metric, direction):
    for name in ("val_dice", "x", "accuracy"):
        assert higher_is_better(metric, name) is direction
        assert all(higher_is_better(one, each) is direction for each, one in expanded({name: metric}).items())


def test_the_value_of_a_class_may_choose_the_epoch():
    config = read_settings({"val_metrics": METRICS, "val_score_key": "val_hd.tumour", "losses": {"ce": lambda a, b: 0}})
    assert config.score(None, None) == ("val_hd.tumour", "lowest")
    assert config.score("dice.liver", None) == ("dice.liver", "highest")
    with pytest.raises(
        ConfigError, match=r"'hd.tumor' is neither a validation metric nor a loss; did you mean 'hd.tum"
    ):
        read_settings({"val_metrics": METRICS, "val_score_key": "hd.tumor"})
    with pytest.raises(ConfigError, match=r"not known whether small or large values of 'bias\.liver' are good"):
        read_settings({"val_metrics": {"bias": VolumeError(ORGANS, signed=True)}, "val_score_key": "bias.liver"})


def test_the_axis_that_a_backend_says_does_not_replace_the_own_one():
    assert DicePerClass(3).told(-1, None).class_axis == -1
    assert DicePerClass(3, class_axis=1).told(-1, None).class_axis == 1
    same = DicePerClass(3)
    assert same.told(None, None) is same


@pytest.mark.parametrize("make", [DicePerClass, IoUPerClass, HausdorffPerClass, VolumeError])
def test_voxels_that_are_ignored_are_of_no_class(make):
    rng = np.random.default_rng(0)
    true, pred = rng.integers(0, 3, (2, 6, 7)), rng.integers(0, 3, (2, 6, 7))
    ignored = np.zeros(true.shape, bool)
    ignored[:, :, -2:] = True  # beside what counts, so that cutting them off is the same
    marked = np.where(ignored, 255, true)
    metric = make(3, include_background=True, ignore_index=255)
    expected = make(3, include_background=True).values(true[..., :-2], pred[..., :-2])
    np.testing.assert_allclose(metric.values(marked, pred), expected)
    np.testing.assert_allclose(metric.values(marked[None], pred), expected)
    with pytest.raises(DataError, match="ignore_index= is the label"):
        make(3).values(marked, pred)


def test_the_label_that_losses_ignore_is_ignored():
    torch = pytest.importorskip("torch")
    config = read_settings({"val_metrics": METRICS, "losses": {"ce": torch.nn.CrossEntropyLoss(ignore_index=255)}})
    bound = config.bound(config.epoch_metrics, backend=ToyBackend())
    assert {metric.ignore_index for metric in bound.values() if isinstance(metric, DicePerClass)} == {255}
    assert DicePerClass(3, ignore_index=7).told(None, 255).ignore_index == 7


def test_metrics_and_their_classes_are_copied_and_written():
    classes = (OfClass, DicePerClass, HausdorffPerClass, SurfaceDice, VolumeError)
    known = {f"{cls.__module__}:{cls.__name__}": cls for cls in classes}
    for metric in [*expanded(METRICS).values(), VolumeError(3, "ml", (1, 2, 3)), SurfaceDice(3, (1, 2))]:
        for twin in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
            assert repr(twin) == repr(metric)
        plain = yaml_codec.encode(metric)
        assert "$repr" not in str(plain)
        assert repr(yaml_codec.decode(plain, known)) == repr(metric)


def test_a_mean_of_cases_counts_those_that_have_a_value():
    metric = expanded(METRICS)["dice.tumour"]
    assert is_mean_of_cases(metric)
    found = case_values(metric, [TRUE, PRED])
    assert found.weights.tolist() == [1, 1, 0, 1, 1, 1, 1]
    assert found.mean == pytest.approx(np.nanmean(seen(METRICS).compute()["dice.tumour"]))
    assert mean_of_values([np.nan, 1.0, 3.0], may_lack=True) == 2.0
    assert np.isnan(mean_of_values([np.nan, 1.0]))
    assert np.isnan(mean_of_values([np.nan], may_lack=True))


def test_a_trial_says_who_computes_them():
    with pytest.raises(
        ConfigError, match=r"DicePerClass has a value for each class .* trial.to_experiment\(val_metrics="
    ):
        MetricList([DicePerClass(3)])
