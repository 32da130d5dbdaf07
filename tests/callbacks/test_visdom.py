"""What is shown by visdom: a server of its own, on this machine alone."""

import base64
import io

import numpy as np
import pytest
import visdom_server
from PIL import Image

from delira import state as keys
from delira.callbacks.decorators import on_end_epoch, on_step_validation
from delira.errors import ConfigError
from delira.training.callbacks import (
    ImagingCallback,
    TensorBoard,
    TensorBoardImages,
    TensorBoardText,
    VisdomParams,
    close_writer,
    get_writer,
)

pytest.importorskip("visdom", reason="needs the package 'visdom', see requirements/visdom.txt")


@pytest.fixture
def params(visdom_port):
    """Where the server of the tests is."""
    return VisdomParams(server="http://127.0.0.1", port=visdom_port)


def windows(params, env):
    return visdom_server.windows(params.port, env)


def test_epochs_and_batches_are_lines(torch_fit, params, tmp_path):
    board = TensorBoard(tmp_path, write_batch_metrics=True, batch_step_size=1, visdom=True, visdom_params=params)
    history = torch_fit.trial(board, metrics=["loss"]).run(3)
    assert not list(tmp_path.iterdir())
    shown = windows(params, "Linear_delira")
    line = shown["val_loss"]["content"]["data"][0]
    assert line["x"] == [1, 2, 3]
    np.testing.assert_allclose(line["y"], [record["val_loss"] for record in history], rtol=1e-6)
    assert shown["batch/loss"]["content"]["data"][0]["x"] == list(range(1, 10))


def test_a_continued_fit_takes_points_back_that_it_writes_again(torch_fit, params, tmp_path):
    board = lambda: TensorBoard(tmp_path, comment="again", visdom=True, visdom_params=params)  # noqa: E731
    trial = torch_fit.trial(board())
    trial.run(2)
    kept = trial.save(tmp_path / "kept")
    trial.run(3)
    history = torch_fit.trial(board()).load(kept).run(4)
    line = windows(params, "Linear_again")["loss"]["content"]["data"][0]
    assert line["x"] == [1, 2, 3, 4]
    np.testing.assert_allclose(line["y"], [record["loss"] for record in history], rtol=1e-6)
    torch_fit.trial(board()).run(1)
    assert windows(params, "Linear_again")["loss"]["content"]["data"][0]["x"] == [1]


def test_texts_and_images_are_windows(torch_fit, params, tmp_path):
    @on_step_validation
    def draw(state):
        state["picture"] = state[keys.X][:, None, :] * 0 + 1

    given = {"comment": "seen", "visdom": True, "visdom_params": params}
    images = TensorBoardImages(tmp_path, name="ones", key="picture", num_images=2, **given)
    history = torch_fit.trial(draw, images, TensorBoardText(tmp_path, **given)).run(2)
    shown = windows(params, "Linear_seen")
    assert f"<td>{history[1]['val_loss']:.6g}</td>" in shown["epoch"]["content"]
    assert shown["ones"]["content"]["src"].startswith("data:image/")
    assert "SGD" in shown["trial"]["content"]


def test_the_environment_may_be_named(params, tmp_path):
    chosen = VisdomParams(server=params.server, port=params.port, env="chosen")
    writer = get_writer(tmp_path / "other", "me", visdom=True, visdom_params=chosen)
    writer.add_scalar("one", 1.0, 1)
    writer.add_image("bytes", np.full((3, 4, 4), 200, np.uint8), 1)
    close_writer(tmp_path / "other", "me", visdom=True)
    assert windows(params, "chosen").keys() == {"one", "bytes"}


def test_a_graph_that_was_asked_for_is_told(torch_fit, params, tmp_path, caplog):
    given = {"visdom": True, "visdom_params": params}
    torch_fit.trial(TensorBoard(tmp_path, **given)).run(1)
    assert not caplog.records
    torch_fit.trial(TensorBoard(tmp_path, write_graph=True, **given)).run(1)
    assert [record.getMessage() for record in caplog.records if record.name == "delira"] == [
        "no graph of the network was written: visdom shows none"
    ]


def test_a_server_that_does_not_answer_is_told_before_the_fit(torch_fit, tmp_path, capfd):
    port = visdom_server.free_port()
    board = TensorBoard(tmp_path, visdom=True, visdom_params=VisdomParams(server="http://127.0.0.1", port=port))
    trial = torch_fit.trial(board)
    with pytest.raises(ConfigError, match=rf"nobody answers at http://127.0.0.1:{port} .*python -m visdom.server"):
        trial.run(1)
    assert trial.history == []
    output = capfd.readouterr()
    assert output.out + output.err == ""


@pytest.mark.slow
def test_a_server_that_is_gone_ends_no_training(torch_fit, tmp_path, caplog):
    with visdom_server.running_server(tmp_path) as (port, process):

        @on_end_epoch
        def kill(state):
            if state[keys.EPOCH] == 1:
                process.kill()
                process.join()

        params = VisdomParams(server="http://127.0.0.1", port=port)
        board = TensorBoard(tmp_path, visdom=True, visdom_params=params)
        history = torch_fit.trial(kill, board).run(3)
    assert len(history) == 3
    told = [record.getMessage() for record in caplog.records if record.name == "delira"]
    assert len(told) == 1
    assert "the server of visdom is gone" in told[0]


def test_pictures_of_imaging_callbacks_are_images(torch_fit, params, tmp_path):
    class Ramp(ImagingCallback):
        def on_batch(self, state):
            return np.arange(256, dtype=np.uint8).reshape(1, 16, 16).repeat(3, axis=0)

    grid = Ramp().make_grid(2, padding=0).to_visdom("grid {epoch}", params, tmp_path / "pictures")
    torch_fit.trial(grid).run(2)
    shown = windows(params, "pictures")
    assert sorted(shown) == ["grid 0", "grid 1"]
    encoded = shown["grid 1"]["content"]["src"].partition("base64,")[2]
    with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
        ramp = np.arange(256).reshape(16, 16)
        np.testing.assert_allclose(np.asarray(picture.convert("L")), np.hstack([ramp, ramp]), atol=6)
