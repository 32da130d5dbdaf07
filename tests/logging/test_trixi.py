"""Messages for the loggers of the real trixi, and what these have written."""

import importlib

import numpy as np
import pytest
from event_files import read_events
from log_messages import send
from problems import linear_problem

from delira.data_loading import BaseDataManager, DictDataset
from delira.logging import TrixiHandler

STAIRS = np.arange(12.0).reshape(3, 4)


@pytest.fixture(scope="module")
def trixi():
    """The loggers of trixi; importing them takes seconds, and warns of old ways."""
    pytest.importorskip("trixi", reason="needs the package 'trixi', see requirements/trixi.txt")
    pytest.importorskip("visdom", reason="trixi needs the package 'visdom', see requirements/visdom.txt")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("trixi.logger")


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")  # where it is compiled only now
@pytest.mark.slow
def test_the_tensorboard_logger_shows_what_it_has_methods_for(trixi, tmp_path, caplog):
    pytest.importorskip("torch", reason="needs the package 'torch', which is not installed")
    pytest.importorskip("tensorboard", reason="needs the package 'tensorboard'")
    tensorboard = importlib.import_module("trixi.logger.tensorboard.tensorboardxlogger")
    handler = TrixiHandler(tensorboard.TensorboardXLogger, target_dir=str(tmp_path))
    message = {"value": {"args": [0.5], "kwargs": {"name": "loss", "counter": 1}}}
    send(
        handler,
        message,
        {"scalar": {"tag": "rate", "scalar_value": 0.25, "global_step": 7}},
        {"text": {"text": "half of it", "name": "note", "counter": 1}},
        {"histogram": {"array": STAIRS, "name": "stairs", "counter": 1}},
        {"image": {"image": np.full((3, 4, 6), 0.5), "name": "gray", "counter": 1}},
    )
    assert message == {"value": {"args": [0.5], "kwargs": {"name": "loss", "counter": 1}}}
    found = read_events(tmp_path)
    assert [(each.step, each.value) for each in found.Scalars("loss")] == [(1, 0.5)]
    assert [(each.step, each.value) for each in found.Scalars("rate")] == [(7, 0.25)]
    assert found.Histograms("stairs")[0].histogram_value.num == 12
    assert [(each.width, each.height) for each in found.Images("gray")] == [(6, 4)]
    assert found.Tags()["tensors"]
    assert not caplog.records


@pytest.mark.slow
def test_the_plot_file_logger_writes_pictures(trixi, tmp_path, caplog):
    handler = TrixiHandler(
        trixi.NumpyPlotFileLogger, img_dir=str(tmp_path / "images"), plot_dir=str(tmp_path / "plots")
    )
    send(
        handler,
        {"image": {"image": np.full((3, 8, 8), 0.5), "name": "gray"}},
        {"value": {"value": 0.5, "name": "loss"}},
        {"bar": {"array": np.array([1.0, 2.0]), "name": "bars"}},
        {"lineplot": {"y_vals": [1.0, 2.0], "x_vals": [0.0, 1.0], "name": "line"}},
        {"piechart": {"array": np.array([1.0, 3.0]), "name": "pie"}},
    )
    names = {path.stem for path in tmp_path.rglob("*.png")}
    assert names == {"gray", "loss", "bars", "line", "pie"}
    assert not caplog.records


@pytest.mark.slow
def test_the_text_file_logger_gets_the_epochs_of_a_training(trixi, kit, tmp_path, caplog):
    data = BaseDataManager(DictDataset(linear_problem(12)), 4, n_process_augmentation=0)
    base = tmp_path / "texts"
    base.mkdir()
    trainer = kit.trainer(
        tmp_path / "run", logging_type=trixi.TextFileLogger, logging_kwargs={"base_dir": str(base), "log_stdout": False}
    )
    trainer.train(2, data)
    written = "\n".join(path.read_text() for path in base.rglob("*") if path.is_file())
    for record in trainer.state.history:
        assert str(record["mse"]) in written
    assert not [record for record in caplog.records if record.name == "delira"]


@pytest.mark.slow
def test_a_logger_that_is_made_already_shows_messages(trixi, tmp_path, caplog):
    logger = trixi.NumpyPlotFileLogger(img_dir=str(tmp_path / "images"), plot_dir=str(tmp_path / "plots"))
    send(TrixiHandler(logger), {"pie": {"array": [1.0, 3.0], "name": "pie"}})
    assert [path.name for path in tmp_path.rglob("*.png")] == ["pie.png"]
    assert not caplog.records
