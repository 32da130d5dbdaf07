"""What is written for TensorBoard, read back by TensorBoard's own reader."""

import importlib.util
import logging
import sys

import numpy as np
import pytest
from event_files import read_events
from small_rooms import build_room

import delira
from delira import state as keys
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.training.callbacks import (
    AbstractTensorBoard,
    TensorBoard,
    TensorBoardText,
    TensorBoardWriter,
    close_writer,
    get_writer,
)
from delira.training.callbacks.decorators import on_end_epoch, on_step_training

pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
pytest.importorskip("tensorboard", reason="needs the package 'tensorboard', which reads the files")


def scalars(folder):
    """``{name: {step: value}}``."""
    reader = read_events(folder)
    found = {}
    for name in reader.Tags()["scalars"]:
        steps = found.setdefault(name, {})
        for event in reader.Scalars(name):
            assert event.step not in steps, f"{name} was written twice at step {event.step}"
            steps[event.step] = event.value
    return found


def texts(folder, name):
    reader = read_events(folder)
    return {event.step: event.tensor_proto.string_val[0].decode() for event in reader.Tensors(f"{name}/text_summary")}


def without_counts(record):
    return {name: value for name, value in record.items() if name not in ("epoch", "train_steps", "validation_steps")}


def assert_epochs(found, history):
    expected = {}
    for step, record in enumerate(history, 1):
        for name, value in without_counts(record).items():
            expected.setdefault(name, {})[step] = pytest.approx(value, rel=1e-6)
    assert found == expected


# ---- scalars


def test_epochs_are_the_history(fit, tmp_path):
    trial = fit.trial(TensorBoard(tmp_path, write_graph=False), metrics=["loss", "mae"])
    history = trial.run(3)
    (folder,) = tmp_path.iterdir()
    assert folder.name == f"{type(fit.module).__name__}_delira"
    assert {"loss", "val_loss", "mae", "val_mae"} <= set(scalars(folder))
    assert_epochs(scalars(folder), history)
    assert not (folder / "batch").exists()


def test_batches_have_the_number_of_their_update(fit, tmp_path):
    seen = {}

    @on_step_training
    def look(state):
        seen[len(seen) + 1] = float(state["loss"])

    board = TensorBoard(tmp_path, write_graph=False, write_batch_metrics=True, batch_step_size=2)
    fit.trial(look, board).run(2)
    (folder,) = tmp_path.iterdir()
    assert len(seen) == 6  # 3 in each epoch, of which the first and the third are written
    wanted = {step: pytest.approx(seen[step], rel=1e-6) for step in (1, 3, 4, 6)}
    assert scalars(folder / "batch")["batch/loss"] == wanted
    assert "batch/running_loss" in scalars(folder / "batch")


def test_values_that_are_lists_and_dictionaries_become_several_scalars(torch_fit, tmp_path):
    @on_end_epoch
    def add(state):
        state[keys.METRICS] |= {
            "list": [1.0, [2.0, 3.0]], "dict": {"a": 4, "b": [5.0]}, "array": np.array([[6.0, 7.0]]),
            "nan": float("nan"), "text": "no number", "complex": 1j, "yes": True,
        }  # fmt: skip

    board = TensorBoard(tmp_path, write_graph=False)
    torch_fit.trial(add, board, metrics=[]).run(1)
    (folder,) = tmp_path.iterdir()
    assert {name: steps[1] for name, steps in scalars(folder).items() if name != "lr"} == {
        "list/0": 1.0, "list/1/0": 2.0, "list/1/1": 3.0, "dict/a": 4.0, "dict/b/0": 5.0, "array/0/0": 6.0,
        "array/0/1": 7.0, "yes": 1.0,
    }  # fmt: skip


def test_a_continued_fit_hides_what_it_writes_again(torch_fit, tmp_path):
    board = lambda: TensorBoard(tmp_path / "logs", write_graph=False, write_batch_metrics=True, batch_step_size=1)  # noqa: E731
    trial = torch_fit.trial(board())
    trial.run(2)
    kept = trial.save(tmp_path / "kept")
    trial.run(3)
    again = torch_fit.trial(board()).load(kept)
    history = again.run(4)
    (folder,) = (tmp_path / "logs").iterdir()
    assert_epochs(scalars(folder), history)
    assert list(scalars(folder / "batch")["batch/loss"]) == list(range(1, 13))
    # of both fits that went on after the second epoch, if not within one second
    assert set(starts(folder)) == {3}
    assert set(starts(folder / "batch")) == {7}


def starts(folder):
    """Steps from which files of a folder hide what was written before, in their order."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    files = sorted(path for path in folder.iterdir() if path.is_file())
    events = [event for path in files for event in EventFileLoader(str(path)).Load()]
    return [event.step for event in events if event.HasField("session_log")]


def test_a_fit_that_is_continued_inside_an_epoch_equals_an_unbroken_one(torch_fit, tmp_path):
    def board(name):
        return TensorBoard(tmp_path / name, write_graph=False, write_batch_metrics=True, batch_step_size=1)

    @on_step_training
    def stop(state):
        if state[keys.EPOCH] == 1 and state[keys.BATCH] == 1:
            trainer = state[keys.SELF].trainer
            trainer.saving.save(["last"])
            raise RuntimeError("on purpose")

    whole = torch_fit.trial(board("whole"))
    before = {name: value.clone() for name, value in torch_fit.module.state_dict().items()}
    whole.run(3)
    torch_fit.module.load_state_dict(before)
    with pytest.raises(RuntimeError, match="on purpose"):
        torch_fit.trial(board("broken"), stop, save_path=tmp_path / "run").run(3)
    torch_fit.module.load_state_dict(before)
    torch_fit.trial(board("broken"), save_path=tmp_path / "run").run(3)
    for part in ("Linear_delira", "Linear_delira/batch"):
        assert scalars(tmp_path / "broken" / part) == scalars(tmp_path / "whole" / part)


def test_evaluations_and_predictions_leave_the_epochs_alone(torch_fit, tmp_path):
    trial = torch_fit.trial(TensorBoard(tmp_path), TensorBoardText(tmp_path)).with_test_data(torch_fit.x, 4)
    trial.run(2)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    trial.evaluate()
    trial.predict()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files


def test_a_replay_writes_everything_anew(torch_fit, tmp_path):
    trial = torch_fit.trial(TensorBoard(tmp_path, write_graph=False))
    history = trial.run(3)
    for _ in range(2):
        trial.replay([TensorBoard(tmp_path, write_batch_metrics=True, batch_step_size=1)], verbose=0)
    (folder,) = tmp_path.iterdir()
    assert_epochs(scalars(folder), history)
    assert list(scalars(folder / "batch")["batch/loss"]) == list(range(1, 10))


def test_a_fit_that_has_nothing_to_do_writes_nothing(torch_fit, tmp_path, manager):
    room = build_room("torch")
    room.trainer(tmp_path / "run").train(2, manager())
    room.trainer(tmp_path / "run", callbacks=[TensorBoard(tmp_path / "logs")]).train(2, manager())
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("room", ["torch", "tensorflow", "jax"], indirect=True)
def test_an_experiment_has_it_too(room, tmp_path, manager):
    board = TensorBoard(tmp_path / "logs", write_graph=False, write_batch_metrics=True, batch_step_size=1)
    trainer = room.trainer(tmp_path / "run", callbacks=[board, TensorBoardText(tmp_path / "logs")])
    trainer.train(2, manager(), manager())
    (folder,) = (tmp_path / "logs").iterdir()
    assert_epochs(scalars(folder), trainer.state.history)
    assert list(scalars(folder / "batch")["batch/loss"]) == [1, 2, 3, 4, 5, 6]
    assert f"<td>{trainer.state.history[1]['mse']:.6g}</td>" in texts(folder, "epoch")[2]


@pytest.mark.parametrize("room", ["torch"], indirect=True)
def test_folds_have_folders_of_their_own(room, tmp_path, manager):
    experiment = room.experiment(tmp_path / "runs", callbacks=[TensorBoard(tmp_path / "logs", write_graph=False)])
    experiment.kfold(manager(12), num_epochs=1, num_splits=3)
    name = room.network.__name__
    found = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert found == [f"{name}_delira", f"{name}_delira_fold_1", f"{name}_delira_fold_2"]
    losses = [scalars(tmp_path / "logs" / folder)["mse"][1] for folder in found]
    assert len(set(losses)) == 3


# ---- folders and writers


def test_the_folder_is_the_same_at_every_start(torch_fit, tmp_path):
    board = TensorBoard(tmp_path, write_graph=False, comment="mine")
    trial = torch_fit.trial(board)
    for epochs in (1, 2, 3):
        trial.run(epochs)
        trial.evaluate()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_dir()] == ["Linear_mine"]
    assert list(scalars(tmp_path / "Linear_mine")["loss"]) == [1, 2, 3]


def test_a_shared_writer_is_closed_by_its_last_user_only(tmp_path):
    first, second = get_writer(tmp_path, "first"), get_writer(tmp_path, "second")
    assert first is second
    close_writer(tmp_path, "first")
    close_writer(tmp_path, "first")  # a user that is done does not count twice
    close_writer(tmp_path, "stranger")
    second.add_scalar("kept", 1.0, 1)
    assert get_writer(tmp_path, "third") is second
    close_writer(tmp_path, "second")
    second.add_scalar("kept", 2.0, 2)
    assert second.all_writers
    close_writer(tmp_path, "third")
    assert not second.all_writers
    assert scalars(tmp_path) == {"kept": {1: 1.0, 2: 2.0}}
    assert get_writer(tmp_path, "fourth") is not second
    close_writer(tmp_path, "fourth")


def test_callbacks_of_one_folder_write_one_file(torch_fit, tmp_path):
    trial = torch_fit.trial(TensorBoard(tmp_path, write_graph=False), TensorBoardText(tmp_path))
    history = trial.run(2)
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert_epochs(scalars(file.parent), history)
    assert sorted(texts(file.parent, "epoch")) == [1, 2]


def test_a_fit_that_fails_leaves_a_closed_file(torch_fit, tmp_path):
    @on_end_epoch
    def fail(state):
        if state[keys.EPOCH] == 1:
            raise RuntimeError("on purpose")

    board = TensorBoard(tmp_path, write_graph=False)
    with pytest.raises(RuntimeError, match="on purpose"):
        torch_fit.trial(board, fail).run(3)
    (folder,) = tmp_path.iterdir()
    assert list(scalars(folder)["loss"]) == [1, 2]
    writer = get_writer(folder, "new")  # nobody is left who keeps the old one
    close_writer(folder, "new")
    assert not writer.all_writers


def test_a_callback_of_ones_own(torch_fit, tmp_path):
    class Answer(AbstractTensorBoard):
        def on_end_epoch(self, state):
            self.get_writer().add_scalar("answer", 42, state[keys.EPOCH] + 1)

    torch_fit.trial(Answer(tmp_path), TensorBoard(tmp_path, write_graph=False)).run(2)
    (folder,) = tmp_path.iterdir()
    assert scalars(folder)["answer"] == {1: 42.0, 2: 42.0}


def test_what_is_missing_is_told_with_what_to_install(torch_fit, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r"TensorBoard needs the package 'tensorboardX'.*pip install 'delira\[log"):
        torch_fit.trial(TensorBoard(tmp_path)).run(1)
    with pytest.raises(ImportError, match=r"pip install 'delira\[logging\]'"):
        torch_fit.trial(TensorBoardWriter(tmp_path)).run(1)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"visdom=True needs the package 'visdom'.*setuptools<81"):
        torch_fit.trial(TensorBoard(tmp_path, visdom=True)).run(1)


def test_what_cannot_be_is_refused(tmp_path):
    for step_size in (0, 1.5, True):
        with pytest.raises(ConfigError, match="TensorBoard: batch_step_size is a whole number of at least 1, got"):
            TensorBoard(tmp_path, batch_step_size=step_size)
    with pytest.raises(ConfigError, match=r"visdom_params are VisdomParams\(...\), got \{'port': 1\}"):
        TensorBoardText(tmp_path, visdom_params={"port": 1})


# ---- texts


def test_tables_have_the_values_of_epochs_and_batches(torch_fit, tmp_path):
    text = TensorBoardText(tmp_path, write_batch_metrics=True, batch_step_size=2)
    history = torch_fit.trial(text, metrics=["loss"]).run(2)
    (folder,) = tmp_path.iterdir()
    tables = texts(folder, "epoch")
    assert sorted(tables) == [1, 2]
    for step, record in enumerate(history, 1):
        assert f"<tr><th>val_loss</th><td>{record['val_loss']:.6g}</td></tr>" in tables[step]
    assert sorted(texts(folder / "batch", "batch")) == [1, 3, 4, 6]
    assert "running_loss" in texts(folder / "batch", "batch")[1]


def test_the_summary_is_written_once_and_escaped(torch_fit, tmp_path):
    class Odd(type(torch_fit.module)):
        def extra_repr(self):
            return "<b>bold</b>"

    torch_fit.module = Odd(3, 1)
    trial = torch_fit.trial(TensorBoardText(tmp_path), metrics=["loss"])
    trial.run(1)
    trial.run(2)
    (folder,) = tmp_path.iterdir()
    (summary,) = texts(folder, "trial").values()
    assert "&lt;b&gt;bold" in summary
    assert "<th>criterion</th><td>MSELoss()</td>" in summary
    assert "SGD" in summary
    assert "\n" not in summary  # it would end the table
    trial = torch_fit.trial(TensorBoardText(tmp_path / "none", log_trial_summary=False, write_epoch_metrics=False))
    trial.run(1)
    (folder,) = (tmp_path / "none").iterdir()
    assert read_events(folder).Tags()["tensors"] == []


# ---- graphs


def graph_of(folder):
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    reader = read_events(folder)
    return GraphDef.FromString(reader.Graph().SerializeToString()) if reader.Tags()["graph"] else None


def test_the_graph_is_that_of_the_network(fit, tmp_path, caplog):
    fit.trial(TensorBoard(tmp_path)).run(1)
    (folder,) = tmp_path.iterdir()
    assert not caplog.records
    if fit.room == "jax":
        assert graph_of(folder) is None
        fit.trial(TensorBoard(tmp_path, write_graph=True)).run(1)
        assert [record.getMessage() for record in caplog.records] == [
            "no graph of the network was written: the room 'jax' has none"
        ]
        return
    nodes = {node.op: node for node in graph_of(folder).node}
    assert ("aten::linear" if fit.room == "torch" else "MatMul") in nodes, list(nodes)


def noisy_torch():
    torch = pytest.importorskip("torch", reason="the torch room needs the package 'torch'")
    torch.manual_seed(1)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm, self.drop = torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)
            self.last = torch.nn.Linear(4, 1)

        def forward(self, x):
            return self.last(self.drop(self.norm(self.linear(x + torch.randn_like(x)))))

    return Net()


def noisy_keras():
    pytest.importorskip("tensorflow", reason="the TensorFlow room needs the package 'tensorflow'")
    import keras

    keras.utils.set_random_seed(1)
    layers = keras.layers
    return keras.Sequential([
        layers.Input((3,)), layers.Dense(4), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(1),
    ])  # fmt: skip


def test_to_write_a_graph_changes_nothing(fit, tmp_path):
    if fit.room == "jax":
        pytest.skip("JAX has no graph")
    make, found = {"torch": noisy_torch, "tensorflow": noisy_keras}[fit.room], []
    for graph in (True, False):
        fit.module = make()
        trial = fit.trial(TensorBoard(tmp_path / str(graph), write_graph=graph))
        history = trial.run(2)
        weights = trial.trainer.backend.weights.named(fit.module)
        found.append((history, {name: value.tolist() for name, value in weights.items()}))
    assert found[0] == found[1]
    (folder,) = (tmp_path / "True").iterdir()
    nodes = graph_of(folder).node
    assert any("norm" in node.name for node in nodes)
    assert not any("Random" in node.op for node in nodes)  # it is that of a prediction: nothing is dropped


def run_graph(model, x, y, tmp_path, criterion, *callbacks):
    import torch

    before, after = callbacks or ([], [])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trial = delira.Trial(model, optimizer, criterion, callbacks=[before, TensorBoard(tmp_path), after], verbose=0)
    trial.with_train_data(x, y, 4).run(1)
    (folder,) = tmp_path.iterdir()
    return trial, graph_of(folder)


def test_networks_of_whole_numbers_have_a_graph(tmp_path, caplog):
    torch = pytest.importorskip("torch", reason="the torch room needs the package 'torch'")
    model = torch.nn.Sequential(torch.nn.Embedding(7, 4), torch.nn.Flatten(), torch.nn.Linear(12, 1))
    x = np.random.default_rng(0).integers(0, 7, (8, 3))
    _, graph = run_graph(model, x, np.zeros((8, 1), "f4"), tmp_path, torch.nn.MSELoss())
    assert "aten::embedding" in {node.op for node in graph.node}
    assert not caplog.records


def test_networks_that_take_the_state_or_return_dictionaries_have_a_graph(tmp_path, caplog):
    torch = pytest.importorskip("torch", reason="the torch room needs the package 'torch'")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 1)

        def forward(self, x, state):
            state["hidden"] = self.linear(x)
            return {"out": state["hidden"], "rest": [x, None]}

    def criterion(state):
        return ((state[keys.Y_PRED]["out"] - state[keys.Y_TRUE]) ** 2).mean()

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)).astype("f4"), np.zeros((8, 1), "f4")
    seen = []
    look = on_step_training(lambda state: seen.append({**state}))
    _, graph = run_graph(Net(), x, y, tmp_path, criterion, look, look)
    assert "aten::linear" in {node.op for node in graph.node}
    assert not caplog.records
    before, after = seen[:2]  # around the graph: the state has nothing of what the tracer saw
    assert before.keys() == after.keys()
    assert all(before[key] is after[key] for key in before)


def test_what_has_no_graph_is_told_once_and_the_fit_goes_on(tmp_path, caplog, capsys):
    torch = pytest.importorskip("torch", reason="the torch room needs the package 'torch'")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 1)

        def forward(self, x):
            if torch.jit.is_tracing():
                raise RuntimeError("this cannot be traced\nfor a long reason")
            return self.linear(x)

    x, y = np.ones((8, 3), "f4"), np.zeros((8, 1), "f4")
    with caplog.at_level(logging.WARNING, logger="delira"):
        trial, graph = run_graph(Net(), x, y, tmp_path, torch.nn.MSELoss())
    assert graph is None
    assert [record.getMessage() for record in caplog.records] == [
        "no graph of the network was written: RuntimeError: this cannot be traced"
    ]
    assert len(trial.history) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("room", ["torch"], indirect=True)
def test_networks_of_several_inputs_have_a_graph(room, tmp_path, caplog):
    class Net(room.network):
        def forward(self, x, scale):
            return {"pred": super().forward(x)["pred"] * scale}

    rng = np.random.default_rng(0)
    arrays = {"image": rng.normal(size=(8, 3)), "factor": rng.normal(size=(8, 1)), "label": rng.normal(size=(8, 1))}
    data = BaseDataManager({name: array.astype("f4") for name, array in arrays.items()}, 4)
    mapping = {"x": "image", "scale": "factor"}
    trainer = room.trainer(tmp_path / "run", Net(), key_mapping=mapping, callbacks=[TensorBoard(tmp_path / "logs")])
    trainer.train(1, data)
    (folder,) = (tmp_path / "logs").iterdir()
    assert "aten::mul" in {node.op for node in graph_of(folder).node}
    assert not [record for record in caplog.records if "graph" in record.getMessage()]


@pytest.mark.parametrize("room", ["torch", "tensorflow"], indirect=True)
def test_an_experiment_writes_its_graph(room, tmp_path, manager, caplog):
    trainer = room.trainer(tmp_path / "run", callbacks=[TensorBoard(tmp_path / "logs")])
    trainer.train(1, manager())
    (folder,) = (tmp_path / "logs").iterdir()
    graph = graph_of(folder)
    inner = [node.op for function in graph.library.function for node in function.node_def]
    assert {*inner, *(node.op for node in graph.node)} & {"aten::matmul", "aten::linear", "MatMul"}
    assert not [record for record in caplog.records if "graph" in record.getMessage()]
