"""Pictures of a fit: which, and when."""

import numpy as np
import pytest

from delira.callbacks.decorators import on_step_training
from delira.callbacks.imaging import (
    CachingImagingCallback,
    FromState,
    ImagingCallback,
    MakeGrid,
    make_grid,
)
from delira.errors import ConfigError
from delira.state import EPOCH, INPUT, PHASE, TARGET, Y_PRED

pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
from pictures_of_fits import Collected, Twice, X, fit, read


def test_without_a_choice_it_looks_at_validations():
    seen = Collected(PHASE, "data", EPOCH)
    fit(FromState(INPUT).with_handler(seen)).run(2)
    assert [row[:3] for row in seen.seen] == [("fit", "validation_data", epoch) for epoch in (0, 1) for _ in range(10)]
    assert seen.numbers == [*range(10)] * 2


@pytest.mark.parametrize(("names", "wanted"), [
    (["on_train"], {("fit", "train_data")}),
    (["on_val"], {("fit", "validation_data"), ("evaluate", "validation_data")}),
    (["on_test"], {("evaluate", "validation_data"), ("predict", "test_data")}),
    (["on_train", "on_val"], {("fit", "train_data"), ("fit", "validation_data"), ("evaluate", "validation_data")}),
])  # fmt: skip
def test_it_looks_at_the_chosen_passes(names, wanted):
    seen = Collected(PHASE, "data")
    callback = FromState(INPUT).with_handler(seen)
    for name in names:
        assert getattr(callback, name)() is callback
    trial = fit(callback)
    trial.run(1)
    trial.evaluate()
    trial.predict()
    trial.replay([callback], verbose=0)
    assert {row[:2] for row in seen.seen} == wanted


def test_an_index_counts_the_pictures_of_a_pass():
    third, some = Collected(), Collected()
    fit(FromState(INPUT).with_handler(third, 3).with_handler(some, [0, 9])).run(2)
    assert (third.numbers, some.numbers) == ([3, 3], [0, 9, 0, 9])


def test_nothing_is_read_once_everybody_has_what_he_wants():
    calls = []

    class Counted(ImagingCallback):
        def on_batch(self, state):
            calls.append(state["t"])
            return state[INPUT]

    fit(Counted().with_handler(Collected(), 1)).run(1)
    assert calls == [0]


def test_no_picture_where_there_is_none():
    seen = Collected()
    fit(FromState("nobody").with_handler(seen), FromState(TARGET).on_test().with_handler(seen)).predict()
    assert seen.seen == []


def test_on_batch_must_be_there():
    with pytest.raises(NotImplementedError, match="has no on_batch"):
        fit(ImagingCallback().with_handler(print)).run(1)


def test_a_transform_comes_before_the_handlers():
    seen, sizes = Collected(), []
    callback = FromState(INPUT, transform=lambda picture: 1 - picture[:, :, :1])
    fit(callback.with_handler(seen, 0).with_handler(lambda picture, state: sizes.append(picture.shape), 0)).run(1)
    assert sizes == [(1, 2, 1)]
    assert seen.seen[0][0] == pytest.approx([0.95])


@pytest.mark.parametrize("index", [-1, [0, -2], ["0"]])
def test_an_index_is_a_number_of_a_picture(index):
    with pytest.raises(ConfigError, match="index counts pictures"):
        FromState(INPUT).with_handler(print, index)


def test_a_cache_is_given_once_in_a_pass_with_what_came_first():
    seen = []
    callback = (
        FromState(INPUT).on_train().on_val().cache(5).with_handler(lambda p, s: seen.append((s["data"], p[0, 0, 0])))
    )
    fit(callback).run(2)
    wanted = [(data, number) for data in ("train_data", "validation_data") for number in range(5)] * 2
    assert [(data, round(float(pixel) * 20) - 1) for data, pixel in seen] == wanted


@pytest.mark.parametrize("number", [4, 64])
def test_a_grid_is_given_at_the_end_of_the_pass_with_what_there_was(number):
    moments, grids = [], []
    callback = FromState(INPUT).make_grid(number, nrow=5, padding=0)
    fit(callback.with_handler(lambda p, s: (moments.append("val_loss" in s["metrics"]), grids.append(p)))).run(1)
    assert moments == [True]
    np.testing.assert_array_equal(grids[0], make_grid(X[:number], nrow=5, padding=0))


def test_caches_of_caches_are_emptied_too():
    grids = []
    callback = FromState(INPUT).cache(20).make_grid(20, nrow=10, padding=0).with_handler(lambda p, s: grids.append(p))
    fit(callback).run(2)
    assert len(grids) == 2
    np.testing.assert_array_equal(grids[1], make_grid(X, nrow=10, padding=0))


def test_on_cache_makes_the_picture():
    class Mean(CachingImagingCallback):
        def on_cache(self, cache, state):
            assert cache.shape == (4, 1, 2, 3)
            return cache.mean(axis=0)

    seen = Collected()
    fit(Mean(INPUT, 4).with_handler(seen)).run(1)
    assert seen.seen[0][0] == pytest.approx([2.5 / 20])


def test_what_a_source_does_with_its_pictures_is_done():
    inner, outer = Collected(), []
    fit(FromState(INPUT).with_handler(inner).make_grid(3).with_handler(lambda p, s: outer.append(p))).run(1)
    assert inner.numbers == [0, 1, 2, 3]
    assert len(outer) == 1


def test_a_grid_gets_numbers_as_they_were():
    grids = []
    module = Twice()
    module.weight.data.fill_(200.0)
    layout = {"normalize": True, "norm_range": (0.0, 100.0), "nrow": 2, "padding": 1}
    fit(MakeGrid(Y_PRED, 4, **layout).with_handler(lambda p, s: grids.append(p)), module=module).run(1)
    np.testing.assert_allclose(grids[0], make_grid(X[:4] * 2, nrow=2, padding=1), rtol=1e-6)


def test_pictures_of_several_sizes_are_refused():
    class Growing(ImagingCallback):
        def on_batch(self, state):
            return np.zeros((1, 2 + state["t"], 2))

    with pytest.raises(ConfigError, match="several sizes"):
        fit(Growing().make_grid(2)).run(1)


@pytest.mark.parametrize("arguments", [{"num_images": 0}, {"num_images": 1.5}, {"nrows": 3}, {"padding": -1}])
def test_impossible_grids_are_refused(arguments):
    with pytest.raises(ConfigError, match=r"num_images is|not 'nrows'; did you mean 'nrow'|padding is"):
        MakeGrid(**arguments)


@pytest.mark.parametrize("broken_at", [1, 2, 3])
def test_a_pass_that_is_continued_is_counted_on(tmp_path, broken_at):
    class Broken(Exception):
        pass

    def build(name, at=None):
        grid = FromState(INPUT).on_train().make_grid(7, padding=0).to_file(tmp_path / name / "grid_{epoch}.png")
        single = FromState(INPUT).on_train().to_file(tmp_path / name / "{epoch}_{index}.png", [1, 5, 8])

        @on_step_training
        def break_off(state):
            if (state[EPOCH], state["t"]) == (1, at):
                raise Broken

        return fit(grid, single, break_off, save_path=tmp_path / f"run_{name}", seed=0, save_freq_steps=1)

    build("whole").run(2)
    with pytest.raises(Broken):
        build("broken", broken_at).run(2)
    build("broken").run(2)
    files = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert files == sorted(
        [f"{epoch}_{index}.png" for epoch in (0, 1) for index in (1, 5, 8)] + ["grid_0.png", "grid_1.png"]
    )
    assert files == sorted(path.name for path in (tmp_path / "broken").iterdir())
    for name in files:
        np.testing.assert_array_equal(read(tmp_path / "whole" / name), read(tmp_path / "broken" / name))


def test_an_experiment_takes_the_same_callbacks(tmp_path):
    from small_backends import build_kit

    from delira.data_loading import BaseDataManager

    kit = build_kit("torch")
    data = {"data": np.arange(18, dtype="f4").reshape(6, 3) / 18, "label": np.zeros((6, 1), "f4")}
    seen = []

    class Rows(ImagingCallback):
        def on_batch(self, state):
            return state[INPUT]

    experiment = kit.experiment(
        tmp_path, training={"callbacks": [Rows().on_train().with_handler(lambda p, s: seen.append(p))]}
    )
    experiment.run(BaseDataManager(data, 2), BaseDataManager(data, 2))
    assert len(seen) == 6
    assert np.sort(np.concatenate(seen[:3], axis=1)[0], axis=0)[:, 0] == pytest.approx(data["data"][:, 0])
