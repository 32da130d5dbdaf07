"""Graphs of networks for TensorBoard."""

import logging

import numpy as np
import pytest
from event_files import read_events

import delira
from delira import state as keys
from delira.callbacks.decorators import on_step_training
from delira.data_loading import BaseDataManager
from delira.training.callbacks import (
    TensorBoard,
)

pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
pytest.importorskip("tensorboard", reason="needs the package 'tensorboard', which reads the files")


def graph_of(folder):
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    reader = read_events(folder)
    return GraphDef.FromString(reader.Graph().SerializeToString()) if reader.Tags()["graph"] else None


def test_the_graph_is_that_of_the_network(fit, tmp_path, caplog):
    fit.trial(TensorBoard(tmp_path)).run(1)
    (folder,) = tmp_path.iterdir()
    assert not caplog.records
    if fit.backend == "jax":
        assert graph_of(folder) is None
        fit.trial(TensorBoard(tmp_path, write_graph=True)).run(1)
        assert [record.getMessage() for record in caplog.records] == [
            "no graph of the network was written: the backend 'jax' has none"
        ]
        return
    nodes = {node.op: node for node in graph_of(folder).node}
    assert ("aten::linear" if fit.backend == "torch" else "MatMul") in nodes, list(nodes)


def noisy_torch():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch'")
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
    pytest.importorskip("tensorflow", reason="the TensorFlow backend needs the package 'tensorflow'")
    import keras

    keras.utils.set_random_seed(1)
    layers = keras.layers
    return keras.Sequential([
        layers.Input((3,)), layers.Dense(4), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(1),
    ])  # fmt: skip


def test_to_write_a_graph_changes_nothing(fit, tmp_path):
    if fit.backend == "jax":
        pytest.skip("JAX has no graph")
    make, found = {"torch": noisy_torch, "tensorflow": noisy_keras}[fit.backend], []
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
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch'")
    model = torch.nn.Sequential(torch.nn.Embedding(7, 4), torch.nn.Flatten(), torch.nn.Linear(12, 1))
    x = np.random.default_rng(0).integers(0, 7, (8, 3))
    _, graph = run_graph(model, x, np.zeros((8, 1), "f4"), tmp_path, torch.nn.MSELoss())
    assert "aten::embedding" in {node.op for node in graph.node}
    assert not caplog.records


def test_networks_that_take_the_state_or_return_dictionaries_have_a_graph(tmp_path, caplog):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch'")

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
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch'")

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


@pytest.mark.parametrize("kit", ["torch"], indirect=True)
def test_networks_of_several_inputs_have_a_graph(kit, tmp_path, caplog):
    class Net(kit.network):
        def forward(self, x, scale):
            return {"pred": super().forward(x)["pred"] * scale}

    rng = np.random.default_rng(0)
    arrays = {"image": rng.normal(size=(8, 3)), "factor": rng.normal(size=(8, 1)), "label": rng.normal(size=(8, 1))}
    data = BaseDataManager({name: array.astype("f4") for name, array in arrays.items()}, 4)
    mapping = {"x": "image", "scale": "factor"}
    trainer = kit.trainer(tmp_path / "run", Net(), key_mapping=mapping, callbacks=[TensorBoard(tmp_path / "logs")])
    trainer.train(1, data)
    (folder,) = (tmp_path / "logs").iterdir()
    assert "aten::mul" in {node.op for node in graph_of(folder).node}
    assert not [record for record in caplog.records if "graph" in record.getMessage()]


@pytest.mark.parametrize("kit", ["torch", "tensorflow"], indirect=True)
def test_an_experiment_writes_its_graph(kit, tmp_path, manager, caplog):
    trainer = kit.trainer(tmp_path / "run", callbacks=[TensorBoard(tmp_path / "logs")])
    trainer.train(1, manager())
    (folder,) = (tmp_path / "logs").iterdir()
    graph = graph_of(folder)
    inner = [node.op for function in graph.library.function for node in function.node_def]
    assert {*inner, *(node.op for node in graph.node)} & {"aten::matmul", "aten::linear", "MatMul"}
    assert not [record for record in caplog.records if "graph" in record.getMessage()]
