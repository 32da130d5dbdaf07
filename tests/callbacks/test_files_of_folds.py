"""Files that callbacks write: each fold has its own."""

import numpy as np
import pytest
from small_backends import build_kit

from delira.data_loading import BaseDataManager
from delira.state import state_key
from delira.training import callbacks as cb

PICTURE, LABELS = state_key("picture_of_a_newcomer"), state_key("labels_of_a_newcomer")


def test_folds_of_an_experiment_have_files_of_their_own(tmp_path):
    pytest.importorskip("pycm", reason="the callback needs the package 'pycm', which is not installed")
    data = BaseDataManager({"data": np.eye(3, dtype="f4").repeat(4, 0), "label": np.ones((12, 1), "f4")}, 4)
    grid = cb.MakeGrid(PICTURE, 1)
    callbacks = [
        cb.on_step_validation(lambda state: state.update({PICTURE: np.zeros((1, 1, 4, 4)), LABELS: np.array([0, 1])})),
        cb.MostRecent(tmp_path / "newest"), cb.Interval(tmp_path / "in_{fold}", period=2),
        cb.CSVLogger(tmp_path / "metrics.csv"), grid.to_file(tmp_path / "grid.png"),
        cb.PyCM(pred_key=LABELS, target_key=LABELS).to_html_file(tmp_path / "matrix"),
    ]  # fmt: skip
    experiment = build_kit("torch").experiment(tmp_path / "runs", callbacks=callbacks, verbose=False)
    experiment.kfold(data, num_splits=2)
    ours = sorted(path.name for path in tmp_path.iterdir() if path.name != "runs")
    endings = {"newest": ".pt", "metrics": ".csv", "grid": ".png", "matrix": ".html"}
    expected = [f"{name}{fold}{ending}" for name, ending in endings.items() for fold in ("", "_fold_1")]
    assert ours == sorted([*expected, "in_0.pt", "in_1.pt"])
    rows = [(tmp_path / f"metrics{fold}.csv").read_text().splitlines() for fold in ("", "_fold_1")]
    assert [len(lines) for lines in rows] == [3, 3]
    assert rows[0] != rows[1]
