"""Messages, and what handlers on Python's own loggers make of them."""

import copy
import io
import logging

import numpy as np
import pytest
from event_files import read_events

from delira.errors import ConfigError, LeaseLostError
from delira.logging import (
    ImgSaveHandler,
    Message,
    MessageFileHandler,
    MessageHandler,
    MultiStreamHandler,
    MultistreamHandler,
    TensorboardXLoggingHandler,
    TrixiHandler,
)
from delira.logging.messages import KINDS, PLOTS, number, picture, read_messages
from delira.utils.owned import fenced

STAIRS = np.arange(12.0).reshape(3, 4)


class Keeper(MessageHandler):
    """Keeps what it is shown."""

    def __init__(self, level=logging.NOTSET):
        super().__init__(level)
        self.shown = []

    def show(self, message, place):
        self.shown.append(message)


def logger_of(handler):
    logger = logging.Logger("mine")
    logger.addHandler(handler)
    return logger


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"value": {"value": 0.5, "name": "loss"}}, ("scalar", "loss", 0.5, None)),
        ({"value": 0.5}, ("scalar", "value", 0.5, None)),
        ({"value": [0.5, "loss", 3]}, ("scalar", "loss", 0.5, 3)),
        ({"value": {"args": [0.5], "kwargs": {"name": "loss", "counter": 2}}}, ("scalar", "loss", 0.5, 2)),
        ({"value": {"args": [0.5], "name": "loss"}}, ("scalar", "loss", 0.5, None)),
        ({"scalar": {"tag": "loss", "scalar_value": 0.5, "global_step": 7}}, ("scalar", "loss", 0.5, 7)),
        ({"scalar": ["loss", 0.5, 7]}, ("scalar", "loss", 0.5, 7)),
        ({"scalar": {"tag": "a tag", "scalar_value": 1}}, ("scalar", "a tag", 1, None)),
        ({"text": {"text": "a tag is no key", "name": "note"}}, ("text", "note", "a tag is no key", None)),
        ({"text": "tag"}, ("text", "text", "tag", None)),
        ({"text": ["words", "note"]}, ("text", "note", "words", None)),
        ({"values": {"a": 1.0, "b": 2.0}}, ("scalars", "values", {"a": 1.0, "b": 2.0}, None)),
        ({"scalars": {"main_tag": "both", "tag_scalar_dict": {"a": 1.0}}}, ("scalars", "both", {"a": 1.0}, None)),
    ],
)
def test_every_form_of_a_message_is_read(message, expected):
    before = copy.deepcopy(message)
    (found,) = read_messages(message)
    assert (found.kind, found.name, found.value, found.step) == expected
    assert message == before


def test_a_message_may_hold_several_kinds_and_further_keywords():
    message = {
        "image": {"image": STAIRS, "name": "stairs", "title": "up", "env_appendix": "_01"},
        "histogram": {"array": STAIRS, "bins": 4},
    }
    image, histogram = read_messages(message)
    assert (image.kind, image.options, image.appendix) == ("image", {"title": "up"}, "_01")
    assert (histogram.kind, histogram.name, histogram.options) == ("histogram", "histogram", {"bins": 4})


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ({"vlaue": 0.5}, "nothing shows a message of the kind 'vlaue'; did you mean 'value'?"),
        ({"image": {"name": "x"}}, "a message of the kind 'image' has no value: give one of 'image', 'img'"),
        ({"value": [1, "x", 2, 3]}, "has 4 arguments without a name"),
    ],
)
def test_what_is_no_message_is_told(message, complaint):
    with pytest.raises(ConfigError, match=complaint.replace("?", r"\?")):
        read_messages(message)


def test_a_handler_leaves_the_message_as_it_is_and_counts_its_steps():
    handler = Keeper()
    logger, message = logger_of(handler), {"value": {"args": [0.5], "kwargs": {"name": "loss"}}}
    for _ in range(2):
        logger.info(message)
    logger.info({"value": {"value": 1.0, "name": "loss", "counter": 9}})
    assert message == {"value": {"args": [0.5], "kwargs": {"name": "loss"}}}
    assert [(each.value, each.step) for each in handler.shown] == [(0.5, 0), (0.5, 1), (1.0, 9)]


@pytest.mark.parametrize("message", ["plain text", 5, ["value", 1.0], None])
def test_records_that_hold_no_dict_are_ignored(message, capsys):
    handler = Keeper()
    logger_of(handler).info(message)
    assert handler.shown == []
    assert capsys.readouterr() == ("", "")


def test_a_level_leaves_records_out():
    handler = Keeper(level="WARNING")
    logger_of(handler).info({"value": 1.0})
    logger_of(handler).warning({"value": 2.0})
    assert [each.value for each in handler.shown] == [2.0]


def test_what_cannot_be_shown_is_told_once_and_ends_nothing(caplog, capsys):
    logger = logger_of(Keeper())
    for _ in range(3):
        logger.info({"vlaue": 0.5})
    logger.info({"value": 0.5})
    assert [record.getMessage() for record in caplog.records] == [
        "Keeper cannot write a message; further failures are not told"
    ]
    assert capsys.readouterr() == ("", "")
    assert [each.value for each in logger.handlers[0].shown] == [0.5]


def test_streams_get_a_line_each_and_stay_open():
    one, other = io.StringIO(), io.StringIO()
    handler = MultiStreamHandler(one, other)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger_of(handler).info({"value": 0.5})
    handler.close()
    assert one.getvalue() == other.getvalue() == "INFO {'value': 0.5}\n"
    assert MultistreamHandler is MultiStreamHandler


# ---- values


@pytest.mark.parametrize("framework", ["torch", pytest.param("tensorflow", marks=pytest.mark.slow), "jax"])
def test_values_of_every_framework_are_read(framework):
    pytest.importorskip(framework, reason=f"needs the package {framework!r}, which is not installed")
    if framework == "torch":
        import torch

        scalar, pixels = torch.tensor(0.5, requires_grad=True), torch.zeros(3, 4, 5)
    elif framework == "tensorflow":
        import tensorflow as tf

        scalar, pixels = tf.constant(0.5), tf.zeros((4, 5, 3))
    else:
        import jax.numpy as jnp

        scalar, pixels = jnp.float32(0.5), jnp.zeros((4, 5, 3))
    assert number(scalar) == 0.5
    assert isinstance(number(scalar), float)
    assert picture(pixels).shape == (3, 4, 5)


def test_pictures_have_their_channels_first():
    assert picture(np.zeros((4, 5))).shape == (1, 4, 5)
    assert picture(np.zeros((3, 4, 5))).shape == (3, 4, 5)
    assert picture(np.zeros((4, 5, 3))).shape == (3, 4, 5)
    assert picture(np.zeros((3, 5, 3)), channels_last=True).shape == (3, 3, 5)
    np.testing.assert_allclose(picture(np.full((2, 2), 255, np.uint8)), 1.0)
    with pytest.raises(ConfigError, match=r"an image has the shape .*, got \(2,\)"):
        picture(np.zeros(2))


# ---- TensorBoard


@pytest.fixture
def events(tmp_path):
    """What is in the event files of ``log`` when the handler is closed."""
    pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
    pytest.importorskip("tensorboard", reason="needs the package 'tensorboard'")

    def write(*messages, **kwargs):
        handler = TensorboardXLoggingHandler(tmp_path / "log", **kwargs)
        logger = logger_of(handler)
        for message in messages:
            logger.info(message)
        handler.close()
        return read_events(tmp_path / "log")

    return write


def test_tensorboard_shows_numbers_texts_and_histograms(events, caplog):
    found = events(
        {"value": {"value": 0.5, "name": "loss"}},
        {"value": {"value": np.float32(0.25), "name": "loss"}},
        {"scalar": {"tag": "rate", "scalar_value": 1e-3, "global_step": 5}},
        {"scalars": {"main_tag": "both", "tag_scalar_dict": {"a": 1, "b": 2}, "global_step": 1}},
        {"text": {"text": "half", "name": "note"}},
        {"histogram": {"values": STAIRS, "name": "stairs"}},
    )
    assert [(each.step, each.value) for each in found.Scalars("loss")] == [(0, 0.5), (1, 0.25)]
    assert [(each.step, each.value) for each in found.Scalars("rate")] == [(5, pytest.approx(1e-3))]
    assert [found.Scalars(name)[0].value for name in ("both/a", "both/b")] == [1, 2]
    assert found.Tensors("note/text_summary")[0].tensor_proto.string_val == [b"half"]
    assert found.Histograms("stairs")[0].histogram_value.num == 12
    assert not caplog.records


def test_tensorboard_shows_images_grids_figures_and_plots(events, caplog):
    pytest.importorskip("PIL", reason="needs the package 'pillow'")
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(figsize=(2, 1), dpi=100)
    figure.subplots().plot([1, 2])
    plots = [{kind: {"array": STAIRS, "name": kind}} for kind in PLOTS if kind != "histogram"]
    found = events(
        {"image": {"image": np.full((3, 4, 6), 0.5), "name": "gray"}},
        {"image_grid": {"images": np.ones((5, 1, 4, 6)), "name": "grid", "nrow": 5, "padding": 0}},
        {"figure": {"figure": figure, "name": "figure"}},
        *plots,
    )

    def sizes(name):
        return [(each.width, each.height) for each in found.Images(name)]

    assert sizes("gray") == [(6, 4)]
    assert sizes("grid") == [(30, 4)]
    assert sizes("figure") == [(200, 100)]
    with Image.open(io.BytesIO(found.Images("gray")[0].encoded_image_string)) as gray:
        np.testing.assert_allclose(np.asarray(gray), 128, atol=1)
    assert {kind for kind in PLOTS if kind != "histogram"} <= set(found.Tags()["images"])
    assert not caplog.records


def test_tensorboard_shows_what_only_it_has(events, caplog):
    labels = np.array([0, 1, 1, 0])
    found = events({"pr_curve": {"tag": "curve", "labels": labels, "predictions": np.array([0.1, 0.9, 0.8, 0.4])}})
    assert found.Tags()["tensors"] == ["curve"]
    found = events({"pr": {"name": "named", "labels": labels, "predictions": np.zeros(4), "counter": 3}})
    assert [each.step for each in found.Tensors("named")] == [3]
    assert not caplog.records


def test_a_continued_handler_hides_what_came_after(events, tmp_path):
    events(*[{"value": {"value": float(step), "name": "x", "counter": step}} for step in range(1, 6)])
    handler = TensorboardXLoggingHandler(tmp_path / "log")
    handler.continue_from(3, 30)
    logger_of(handler).info({"value": {"value": -4.0, "name": "x", "counter": 4}})
    handler.close()
    found = read_events(tmp_path / "log").Scalars("x")
    assert [(each.step, each.value) for each in found] == [(1, 1.0), (2, 2.0), (3, 3.0), (4, -4.0)]


# ---- files


def test_pictures_are_files(tmp_path, caplog):
    image = pytest.importorskip("PIL.Image", reason="needs the package 'pillow'")
    logger = logger_of(ImgSaveHandler(tmp_path / "pictures"))
    logger.info({"image": {"image": np.full((4, 6), 0.5), "name": "../a/b"}})
    logger.info({"images": {"images": np.zeros((2, 3, 4, 6)), "name": "grid", "counter": 12}})
    logger.info({"line": {"y_vals": [1, 2, 1], "name": "line"}})
    logger.info({"value": 0.5})
    names = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert names == ["_a_b_000000.png", "grid_000012.png", "line_000000.png"]
    with image.open(tmp_path / "pictures" / "_a_b_000000.png") as picture:
        assert picture.size == (6, 4)
        np.testing.assert_allclose(np.asarray(picture), 128, atol=1)
    assert not caplog.records


def test_a_file_of_messages_gets_none_after_somebody_else_took_its_folder_over(tmp_path, caplog, monkeypatch):
    handler, now = MessageFileHandler(tmp_path / "messages.jsonl"), [0.0]
    monkeypatch.setattr("delira.logging.handlers.time.monotonic", lambda: now[0])
    logger = logging.Logger("mine")
    logger.addHandler(handler)

    def check():
        if now[0]:
            raise LeaseLostError("it was taken over")

    with fenced(tmp_path, check):
        for value in range(3):
            logger.info({"value": {"value": value, "name": "loss"}})
            now[0] += 0.6  # a moment after a takeover it may not be known yet
    handler.close()
    assert len((tmp_path / "messages.jsonl").read_text().splitlines()) == 2
    assert "it was taken over" in caplog.text


def test_a_file_of_messages_holds_numbers_and_the_shapes_of_arrays(tmp_path, caplog):
    handler = MessageFileHandler(tmp_path / "sub" / "messages.jsonl")
    logger = logger_of(handler)
    logger.info({"value": {"value": np.float32(0.5), "name": "loss"}})
    logger.info({"image": {"image": np.zeros((4, 6)), "name": "black"}})
    logger.info({"pr_curve": {"tag": "curve", "labels": STAIRS, "predictions": STAIRS}})
    handler.close()
    assert (tmp_path / "sub" / "messages.jsonl").read_text().splitlines() == [
        '{"kind": "scalar", "name": "loss", "step": 0, "value": 0.5}',
        '{"kind": "image", "name": "black", "step": 0, "shape": [1, 4, 6]}',
        '{"kind": "pr_curve", "name": "curve", "step": 0, "value": null, "options": {"tag": "curve", "labels": '
        '{"shape": [3, 4]}, "predictions": {"shape": [3, 4]}}}',
    ]
    assert not caplog.records


def test_a_full_disk_ends_nothing(caplog):
    handler = MessageFileHandler("/dev/full")
    logger = logger_of(handler)
    for _ in range(2):
        logger.info({"text": "x" * 10})
    assert len(caplog.records) == 1
    assert "MessageFileHandler('/dev/full') cannot write a message" in caplog.records[0].getMessage()
    handler.close()


# ---- anything like trixi


class Old:
    """Has methods like a logger of trixi."""

    def __init__(self, target="nowhere"):
        self.target, self.calls, self.closed = target, [], 0

    def show_value(self, value, name=None, counter=None):
        self.calls.append(("show_value", value, name, counter))

    def plot_value(self, *args, **kwargs):
        self.calls.append(("plot_value", args, kwargs))

    def show_barplot(self, array, name):
        self.calls.append(("show_barplot", np.asarray(array).tolist(), name))

    def custom(self, *args):
        self.calls.append(("custom", *args))

    def close(self):
        self.closed += 1


def test_every_method_for_a_key_is_called_with_the_arguments_of_the_message():
    old = Old()
    handler = TrixiHandler(old)
    logger, message = logger_of(handler), {"value": {"args": [0.5], "kwargs": {"name": "loss"}}}
    logger.info(message)
    logger.info({"bar": {"array": [1, 2], "name": "two"}, "custom": [1, 2], "text": "nobody"})
    handler.close()
    assert message == {"value": {"args": [0.5], "kwargs": {"name": "loss"}}}
    assert old.calls == [
        ("show_value", 0.5, "loss", None),
        ("plot_value", (0.5,), {"name": "loss"}),
        ("show_barplot", [1.0, 2.0], "two"),
        ("custom", 1, 2),
    ]
    assert old.closed == 1


def test_a_class_is_made_with_its_arguments():
    handler = TrixiHandler(Old, logging.INFO, target="here")
    assert (handler.logger.target, handler.level) == ("here", logging.INFO)
    with pytest.raises(ConfigError, match="takes a logger with methods like show_value, or its class"):
        TrixiHandler(dict)
    with pytest.raises(ConfigError, match="made already"):
        TrixiHandler(Old(), target="here")


def test_spellings_are_those_of_one_kind():
    assert {KINDS[name] for name in ("value", "scalar")} == {"scalar"}
    assert {KINDS[name] for name in ("images", "image_grid")} == {"image_grid"}
    assert Message("scalar", "x").given("a", "b", default=3) == 3
