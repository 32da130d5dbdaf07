"""Learning curves: what is drawn is what was recorded."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from delira.errors import DataError
from delira.report import learning_curves


def lines_of(axes, label):
    return [line for line in axes.lines if line.get_label() == label]


def test_there_is_a_panel_per_quantity_with_a_line_per_fold_and_their_mean(result):
    figure = result.plot()
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["ce", "accuracy"]  # a constant rate is no curve
    ce = figure.axes[0]
    thin = lines_of(ce, "validation, fold")
    assert len(thin) == 4
    np.testing.assert_array_equal(thin[2].get_xdata(), np.arange(1, 8))
    np.testing.assert_allclose(thin[2].get_ydata(), 1.2 - 0.1 * np.arange(1, 8) + 0.02)
    (mean,) = lines_of(ce, "training, mean")
    np.testing.assert_array_equal(mean.get_xdata(), np.arange(1, 6))  # as far as the shortest fold
    np.testing.assert_allclose(mean.get_ydata(), 1 - 0.1 * np.arange(1, 6) + 0.015)
    assert mean.get_linewidth() > thin[0].get_linewidth()


def test_best_epochs_are_marked_on_the_validation_curve_of_their_fold(result):
    for axes, offset, slope in zip(result.plot().axes, (1.2, 0.0), (-0.1, 0.08), strict=True):
        marks = [line.get_xydata()[0].tolist() for line in lines_of(axes, "best epoch")]
        shift = 0.01 if slope < 0 else 0.0
        expected = [[3.0 + f, offset + slope * (3 + f) + shift * f] for f in range(4)]
        np.testing.assert_allclose(marks, expected)


def test_a_validation_every_second_epoch_is_drawn_where_it_is():
    entries = [{"epoch": e, "ce": 1.0 / e} | ({"val_ce": 2.0 / e} if e % 2 == 0 else {}) for e in range(1, 6)]
    (axes,) = learning_curves([SimpleNamespace(history=entries, best_epoch=4)]).axes
    (line,) = lines_of(axes, "validation, fold")
    np.testing.assert_array_equal(line.get_xdata(), [2, 4])
    assert lines_of(axes, "best epoch")[0].get_xydata().tolist() == [[4.0, 0.5]]


def test_values_over_many_decades_are_drawn_on_a_logarithmic_axis():
    entries = [{"epoch": e, "loss": 10.0**-e, "score": 0.1 * e, "lr": 1.0 / e} for e in range(1, 6)]
    figure = learning_curves([SimpleNamespace(history=entries, best_epoch=None)])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["loss", "score", "lr"]
    assert [axes.get_yscale() for axes in figure.axes] == ["log", "linear", "linear"]


def test_nan_is_a_gap_and_one_epoch_is_a_point():
    entries = [{"epoch": 1, "loss": 1.0, "bad": float("nan")}]
    figure = learning_curves([SimpleNamespace(history=entries, best_epoch=None)])
    (axes,) = figure.axes
    assert axes.lines[0].get_marker() == "."


def test_the_picture_is_saved_and_pyplot_is_left_alone(result, tmp_path):
    from PIL import Image

    figure = result.plot(tmp_path / "new folder" / "curves.png")
    with Image.open(tmp_path / "new folder" / "curves.png") as image:
        assert image.format == "PNG"
        assert image.size == tuple((figure.get_size_inches() * 200).astype(int))
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 20)}
    assert {(0, 114, 178), (213, 94, 0)} <= colours
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []


def test_names_with_dollars_are_not_read_as_mathematics(tmp_path):
    entries = [{"epoch": e, r"$\frac$": e} for e in (1, 2)]
    learning_curves([SimpleNamespace(history=entries, best_epoch=None)]).savefig(tmp_path / "a.png")


def test_without_a_history_there_is_nothing_to_draw(validate, data):
    result = validate(data.labels, data.scores)
    for one in result.folds:
        one.history = []
    with pytest.raises(DataError, match="no fold has a history"):
        result.plot()
    assert "Learning curves" not in result.to_html()


@pytest.mark.slow
def test_long_curves_of_many_folds_do_not_make_the_page_large(validate, data):
    result = validate(data.labels, data.scores, n_folds=20, metrics={})
    generator = np.random.default_rng(0)
    for one in result.folds:
        one.history = [
            {"epoch": epoch, **{name: generator.random() for name in ("a", "val_a", "b", "val_b", "c", "val_c", "d")}}
            for epoch in range(1, 501)
        ]
    assert len(result.to_html()) < 2 << 20


def test_the_band_is_one_standard_deviation_within_what_folds_reached(result):
    (axes,) = [axes for axes in result.plot().axes if axes.get_title(loc="left") == "ce"]
    training = axes.collections[0].get_paths()[0].vertices
    at_two = training[training[:, 0] == 2][:, 1]
    folds = 0.8 + 0.01 * np.arange(4)
    np.testing.assert_allclose([at_two.min(), at_two.max()], folds.mean() + np.array([-1, 1]) * folds.std(ddof=1))
