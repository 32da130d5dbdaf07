"""What handlers show on a server of visdom, as the server has it."""

import base64
import io

import numpy as np
import pytest
import visdom_server
from log_messages import send
from problems import linear_problem

from delira.data_loading import BaseDataManager, DictDataset
from delira.errors import ConfigError
from delira.logging import (
    VisdomImageHandler,
    VisdomImageSaveHandler,
    VisdomImageSaveStreamHandler,
    VisdomLoggingHandler,
    VisdomStreamHandler,
    log,
)

pytest.importorskip("visdom", reason="needs the package 'visdom', see requirements/visdom.txt")
STAIRS = np.arange(12.0).reshape(3, 4)


@pytest.fixture
def place(visdom_port):
    return {"server": "http://127.0.0.1", "port": visdom_port}


@pytest.mark.slow
def test_every_kind_is_a_window(place, caplog):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([1, 2])
    plots = [{kind: {"array": STAIRS, "name": kind}} for kind in ("boxplot", "heatmap", "contour", "surface")]
    send(
        VisdomLoggingHandler("kinds", **place),
        {"value": {"value": 0.5, "name": "loss"}},
        {"value": {"value": 0.25, "name": "loss"}},
        {"scalar": {"tag": "loss", "scalar_value": 0.125, "global_step": 5}},
        {"scalars": {"main_tag": "both", "tag_scalar_dict": {"a": 1, "b": 2}}},
        {"text": {"text": "half of it", "name": "note"}},
        {"image": {"image": np.full((3, 4, 6), 0.5), "name": "gray"}},
        {"image_grid": {"images": np.ones((5, 1, 4, 6)), "name": "grid", "nrow": 5, "padding": 0}},
        {"histogram": {"array": STAIRS, "name": "stairs", "bins": 4}},
        {"figure": {"figure": figure, "name": "figure"}},
        {"line": {"y_vals": [1.0, 4.0], "x_vals": [10.0, 20.0], "name": "line"}},
        {"scatter": {"array": STAIRS[:, :2], "name": "points"}},
        {"bar": {"array": [1.0, 2.0], "name": "bars"}},
        {"pie": {"array": [1.0, 3.0], "name": "pie"}},
        *plots,
    )
    assert not caplog.records
    shown = visdom_server.windows(place["port"], "kinds")
    line = shown["loss"]["content"]["data"][0]
    assert (line["x"], line["y"]) == ([0, 1, 5], [0.5, 0.25, 0.125])
    assert shown["both/b"]["content"]["data"][0]["y"] == [2]
    assert shown["note"]["content"] == "half of it"
    assert sum(shown["stairs"]["content"]["data"][0]["y"]) == 12
    assert len(shown["stairs"]["content"]["data"][0]["y"]) == 4
    assert shown["line"]["content"]["data"][0]["x"] == [10, 20]
    assert shown["bars"]["content"]["data"][0]["y"] == [1, 2]
    assert shown["pie"]["content"]["data"][0]["values"] == [1, 3]
    assert {"points", "figure", "gray", "boxplot", "heatmap", "contour", "surface"} <= shown.keys()
    image = pytest.importorskip("PIL.Image", reason="needs the package 'pillow'")
    encoded = shown["grid"]["content"]["src"].partition("base64,")[2]
    with image.open(io.BytesIO(base64.b64decode(encoded))) as grid:
        assert grid.size == (30, 4)


def test_a_text_is_shown_as_it_is_and_not_as_html(place):
    send(VisdomLoggingHandler("texts", **place), {"text": {"text": "a < b & <b>c</b>\nnext line", "name": "note"}})
    shown = visdom_server.windows(place["port"], "texts")["note"]["content"]
    assert shown == "a &lt; b &amp; &lt;b&gt;c&lt;/b&gt;<br>next line"


def test_of_a_record_with_other_messages_only_the_picture_is_shown(place):
    mixed = {"image": {"image": np.ones((4, 4)), "name": "white"}, "value": {"value": 0.5, "name": "loss"}}
    send(VisdomImageHandler("mixed", **place), mixed)
    assert set(visdom_server.windows(place["port"], "mixed")) == {"white"}


def test_an_appendix_is_another_environment(place):
    message = {"value": {"value": 0.5, "name": "loss", "env_appendix": "_03"}}
    send(VisdomLoggingHandler("folds", **place), message)
    send(VisdomLoggingHandler("fold_03", **place), message)
    port = place["port"]
    assert (len(visdom_server.windows(port, "folds")), len(visdom_server.windows(port, "folds_03"))) == (0, 1)
    assert len(visdom_server.windows(port, "fold_03")) == 1


def test_the_handlers_of_the_introduction_are_compositions(place, tmp_path, caplog):
    pytest.importorskip("PIL", reason="needs the package 'pillow'")
    messages = [{"value": {"value": 0.5, "name": "loss"}}, {"image": {"image": np.ones((4, 4)), "name": "white"}}]
    streams = io.StringIO(), io.StringIO()
    send(VisdomImageHandler("images_only", **place), *messages)
    send(VisdomImageSaveHandler("saved", tmp_path / "saved", **place), *messages)
    send(VisdomStreamHandler("streamed", streams[0], **place), *messages)
    send(VisdomImageSaveStreamHandler("all", tmp_path / "all", *streams, **place), *messages)
    windows = {
        name: set(visdom_server.windows(place["port"], name)) for name in ("images_only", "saved", "streamed", "all")
    }
    assert windows == {
        "images_only": {"white"}, "saved": {"loss", "white"}, "streamed": {"loss", "white"}, "all": {"loss", "white"},
    }  # fmt: skip
    assert [path.name for path in sorted(tmp_path.rglob("*.png"))] == ["white_000000.png"] * 2
    assert len(streams[0].getvalue().splitlines()) == 2 * len(streams[1].getvalue().splitlines())
    assert "{'value': 0.5, 'name': 'loss'}" in streams[1].getvalue()
    assert not caplog.records


def test_no_server_is_told_before_the_training(kit, tmp_path, capfd):
    port = visdom_server.free_port()
    settings = {"logging_type": "visdom", "logging_kwargs": {"server": "http://127.0.0.1", "port": port}}
    trainer = kit.trainer(tmp_path, **settings)
    data = BaseDataManager(DictDataset(linear_problem(12)), 4, n_process_augmentation=0)
    with pytest.raises(ConfigError, match=rf"nobody answers at http://127.0.0.1:{port} .*python -m visdom.server"):
        trainer.train(1, data)
    assert trainer.state.history == []
    output = capfd.readouterr()
    assert output.out + output.err == ""
    with pytest.raises(ConfigError, match=r"'prt', which visdom.Visdom does not take; did you mean 'port'"):
        kit.trainer(tmp_path, logging_type="visdom", logging_kwargs={"prt": 5})


def test_a_training_is_shown_and_continued(kit, tmp_path, place):
    class Talkative(kit.network):
        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
            loss, pred = kit.step(model, data_dict, optimizers, losses)
            log({"value": {"value": loss, "name": "own", "env_appendix": f"_{fold:02d}"}})
            return {}, {"mse": loss}, {"pred": pred}

    data = BaseDataManager(DictDataset(linear_problem(12)), 4, n_process_augmentation=0)
    name = f"{kit.name}_run"
    settings = {
        "logging_type": "visdom", "logging_kwargs": {"exp_name": name, **place}, "save_freq": 1, "fold": 2,
    }  # fmt: skip
    for epochs in (2, 3):
        trainer = kit.trainer(tmp_path, kit.build(cls=Talkative), **settings)
        trainer.train(epochs, data)
    shown = visdom_server.windows(place["port"], f"{name}_02")
    epochs = shown["mse"]["content"]["data"][0]
    assert epochs["x"] == [1, 2, 3]
    np.testing.assert_allclose(epochs["y"], [record["mse"] for record in trainer.state.history], rtol=1e-6)
    assert shown["own"]["content"]["data"][0]["x"] == list(range(1, 10))


@pytest.mark.parametrize(
    ("cls", "given", "named"),
    [
        (VisdomImageSaveHandler, {"level": []}, r"level is .* got \[\]"),
        (VisdomImageSaveHandler, {"folder": 5}, "folder .*got 5"),
        (VisdomStreamHandler, {"level": "nonsense"}, "level is .* got 'nonsense'"),
        (VisdomImageSaveStreamHandler, {"level": None}, "level is .* got None"),
        (VisdomImageSaveStreamHandler, {"folder": 5}, "folder .*got 5"),
    ],
)
def test_a_wrong_value_is_told_before_the_server_is_asked(cls, given, named, tmp_path):
    folder = {} if cls is VisdomStreamHandler else {"folder": tmp_path}
    with pytest.raises(ConfigError, match=named):
        cls("x", server="http://127.0.0.1", port=9, **{**folder, **given})  # nobody answers there
