"""Callbacks of a trial do what their names say: clipping, decay, schedules, mixing, pictures, TensorBoard."""

import importlib.util
import io
import itertools
import sys

import numpy as np
import pytest
from event_files import read_events
from kits import BACKENDS, TORCH, WEIGHT, descend, quiet

from delira.callbacks.abstract_callback import Callback
from delira.callbacks.decorators import (
    on_criterion,
    on_end_epoch,
    on_start_training,
    on_step_training,
    on_step_validation,
    traceable,
)
from delira.callbacks.imaging import ImagingCallback, MakeGrid
from delira.metrics import lambda_metric, mean
from delira.state import LOSS, MODEL, Y_TRUE, X, state_key
from delira.training.callbacks import (
    Best,
    CutMix,
    Cutout,
    CyclicLR,
    EarlyStopping,
    GradientNormClipping,
    Interval,
    L1WeightDecay,
    L2WeightDecay,
    LiveLossPlot,
    ManifoldMixup,
    MostRecent,
    RandomErase,
    ReduceLROnPlateau,
    StepLR,
    TensorBoard,
    TensorBoardImages,
    TensorBoardText,
    WeightDecay,
    ZeroBias,
    close_writer,
    get_writer,
    mixup_loss,
)


def batches_of(x, y, size):
    return [(x[start : start + size], y[start : start + size]) for start in range(0, len(x), size)]


def rates_of(trial, seen):
    """A callback that keeps the learning rate of each epoch; ``trial`` is a function, as there is none yet."""

    @on_start_training
    def note(state):
        seen.append(trial().learning_rates()[0])

    return note


@BACKENDS
def test_b01_gradient_norm_clipping_clips_every_batch(kit, line):
    x, y = line
    net, rate = kit.linear(WEIGHT), 1e-3
    path = [kit.weight(net)]

    @on_step_training
    def note(state):
        path.append(kit.weight(net))

    trial = quiet(net, kit.sgd(net, rate), kit.mse, callbacks=[GradientNormClipping(1.0), note])
    trial.with_train_data(1e3 * x, y, batch_size=3, shuffle=False).run(2)
    norms = [np.linalg.norm(after - before) / rate for before, after in itertools.pairwise(path)]
    np.testing.assert_allclose(norms, np.ones(8), rtol=1e-3)


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize(("decay", "p"), [(WeightDecay, 2), (L1WeightDecay, 1), (L2WeightDecay, 2)])
def test_b02_weight_decay_decays_on_every_batch(kit, line, decay, p):
    net = kit.linear(WEIGHT)
    weight, wanted, seen = WEIGHT.astype("f8"), [], []

    @on_step_training
    def note(state):
        seen.append(float(state[LOSS]))

    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, callbacks=[decay(0.1), note])
    trial.with_train_data(*line, batch_size=5, shuffle=False).run(2)
    for x, y in batches_of(*line, 5) * 2:
        (loss,), after = descend(weight, [(x, y)], 0.05)
        norm = np.linalg.norm(weight.ravel(), p)
        wanted.append(loss + 0.1 * norm)
        weight = after - 0.05 * 0.1 * (np.sign(weight) if p == 1 else weight / norm)
    np.testing.assert_allclose(seen, wanted, rtol=1e-5)
    np.testing.assert_allclose(kit.weight(net), weight, rtol=1e-4, atol=1e-6)


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize("is_built_in", [True, False])
def test_b03_weight_decay_works_without_a_criterion(kit, line, is_built_in):
    @traceable
    @on_criterion
    def listing_1(state):
        for parameter in kit.parameters(state[MODEL]):
            state[LOSS] += kit.norm(parameter)

    net = kit.linear(WEIGHT)
    decay = WeightDecay(1.0) if is_built_in else listing_1
    history = quiet(net, kit.sgd(net, 0.05), None, ["loss"], [decay]).with_train_data(*line, batch_size=12).run(3)
    start = np.linalg.norm(WEIGHT)
    norms = [start - 0.05 * step for step in range(4)]
    np.testing.assert_allclose([record["loss"] for record in history], norms[:3], rtol=1e-5)
    np.testing.assert_allclose(kit.weight(net), WEIGHT * norms[3] / start, rtol=1e-5)


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize("how", ["one run", "two runs", "two trials"])
def test_b10_a_schedule_goes_on_in_the_next_run_and_after_a_resume(kit, line, how):
    seen = []

    def make():
        net = kit.linear(WEIGHT)
        callbacks = [StepLR(2, 0.1), rates_of(lambda: trial, seen)]
        trial = quiet(net, kit.tunable_sgd(net, 1.0), kit.mse, [], callbacks)
        return trial.with_train_data(*line, batch_size=12)

    trial = make()
    if how != "one run":
        trial.run(3)
    if how == "two trials":
        trial = make().load_state_dict(trial.state_dict())
    trial.run(6)
    np.testing.assert_allclose(seen, [1, 1, 0.1, 0.1, 0.01, 0.01], rtol=1e-5)


@BACKENDS
def test_b11_a_cycle_counts_epochs_and_looks_at_no_loss(kit, line):
    seen = []
    net = kit.linear(WEIGHT)
    callbacks = [CyclicLR(0.1, 1.0, step_size_up=2), rates_of(lambda: trial, seen)]
    trial = quiet(net, kit.tunable_sgd(net, 0.1), kit.mse, ["loss"], callbacks)
    trial.with_train_data(*line, batch_size=12).with_val_data(*line, batch_size=12).run(5)
    np.testing.assert_allclose(seen, [0.1, 0.55, 1.0, 0.55, 0.1], rtol=1e-5)


def numbered_images(kit, n=6, size=9):
    """Images whose pixels are the number of the image, which is its label: of shape (n, 1, h, w), or (n, h, w, 1)."""
    images = np.arange(n, dtype="f4")[:, None, None, None] * np.ones((1, size, size, 1), "f4")
    images = np.moveaxis(images, 3, 1) if kit.name == "torch" else images
    return np.ascontiguousarray(images), np.arange(n).astype(kit.label_type)


@BACKENDS
def test_b22_the_weight_of_a_label_is_the_area_that_is_really_there(kit):
    images, labels = numbered_images(kit)
    net, shares = kit.module({"w": 1.0}, lambda net, x: net.w * x), []

    @on_step_training
    def look(state):
        pixels = np.rint(kit.numpy(state[X])).reshape(6, -1)
        there = (pixels[:, :, None] == np.arange(6)).mean(axis=1)
        np.testing.assert_allclose(kit.numpy(state[Y_TRUE]), there, atol=1e-6)
        shares.extend(there[np.arange(6), np.arange(6)])

    trial = quiet(net, kit.sgd(net, 0.0), lambda y_pred, y_true: kit.sum(y_pred), [], [CutMix(1.0, classes=6), look])
    trial.with_train_data(images, labels, batch_size=6, shuffle=False).run(8)
    assert len(shares) == 48
    assert len({round(share, 3) for share in shares}) > 10, "there are no boxes to speak of"


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize("is_numpy", [True, False])
def test_b23_the_users_images_are_not_written_into(kit, is_numpy):
    images, labels = numbered_images(kit)
    before = images.copy()
    given = (images, labels) if is_numpy else (kit.array(images), kit.array(labels))
    for callback in (Cutout(2, 5, constant=9.0), RandomErase(2, 5), CutMix(1.0, classes=6)):
        net, seen = kit.module({"w": 1.0}, lambda net, x: net.w * x), []

        @on_step_training
        def look(state, seen=seen):
            seen.append(kit.numpy(state[X]))

        trial = quiet(net, kit.sgd(net, 0.0), lambda y_pred, y_true: kit.sum(y_pred), [], [callback, look])
        trial.with_train_generator([given]).run(2)
        assert all((one != before).any() for one in seen), "there was nothing to show"
        np.testing.assert_array_equal(kit.numpy(given[0]), before)


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize("name", ["roc_auc_score", "f1"])
def test_b24_auto_knows_that_scores_are_better_the_larger(kit, line, tmp_path, name):
    def fit(sign):
        metric = mean(lambda_metric(name)(lambda y_pred, y_true: sign * float(scores[0])))
        net = kit.linear(WEIGHT)
        best = Best(str(tmp_path / f"{sign}.{{epoch}}"), monitor=f"val_{name}")

        @on_end_epoch
        def next_score(state):
            scores[0] += 1

        scores = [0]
        callbacks = [best, EarlyStopping(f"val_{name}", patience=2), next_score]
        trial = quiet(net, kit.sgd(net, 0.0), kit.mse, [metric], callbacks)
        history = trial.with_train_data(*line, batch_size=12).with_val_data(*line, batch_size=12).run(5)
        return len(history), [path.stem for path in tmp_path.glob(f"{sign}.*")]

    assert fit(1) == (5, ["1.4"]), "the last epoch is the best, and none too many"
    assert fit(-1) == (3, ["-1.0"])


class First(Callback):
    number = 0

    def on_step_training(self, state):
        self.number += 1

    def state_dict(self):
        return {"first": self.number}

    def load_state_dict(self, state):
        self.number = state["first"]


class Second(First):
    def state_dict(self):
        return {"second": self.number}

    def load_state_dict(self, state):
        self.number = state["second"]


@BACKENDS
def test_b26_states_find_their_callbacks_whatever_the_order_and_number(kit, line):
    def make(*callbacks):
        net = kit.linear(WEIGHT)
        return quiet(net, kit.sgd(net, 0.05), kit.mse, [], callbacks).with_train_data(*line, batch_size=4)

    first, second = First(), Second()
    trial = make(first, second)
    first.number, second.number = 10, 20
    trial.run(2)
    state = trial.state_dict()
    for kinds, wanted in (
        ([Second, First], [26, 16]),
        ([Second, First, Second, EarlyStopping], [26, 16, 0]),
        ([Second], [26]),
    ):
        callbacks = [kind() for kind in kinds]
        make(*callbacks).load_state_dict(state)
        assert [one.number for one in callbacks if isinstance(one, First)] == wanted


@BACKENDS
def test_b27_a_callback_of_a_local_class_is_in_the_checkpoint(kit, line, tmp_path):
    class Local(First):
        pass

    def make():
        net, local = kit.linear(WEIGHT), Local()
        trial = quiet(net, kit.sgd(net, 0.05), kit.mse, [], [local, MostRecent(str(tmp_path / "newest"))])
        return trial.with_train_data(*line, batch_size=4), local

    make()[0].run(2)
    (path,) = tmp_path.glob("newest*")
    trial, local = make()
    trial.load(path)
    assert (local.number, len(trial.history)) == (6, 2)


@TORCH
def test_b29_manifold_mixup_leaves_no_layer_wrapped(kit, blobs):
    torch = pytest.importorskip("torch")
    net, wrapped = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)), []
    calls = [type(layer).forward for layer in net]

    def count():
        is_own = [vars(layer).get("forward") is None for layer in net]
        assert is_own == [True] * 3
        assert [type(layer).forward for layer in net] == calls
        return [len(layer._forward_hooks) + len(layer._forward_pre_hooks) for layer in net]

    @on_step_training
    @on_step_validation
    def note(state):
        wrapped.append(count())

    criterion = mixup_loss(kit.cross_entropy)
    trial = quiet(net, kit.sgd(net, 0.05), criterion, [], [ManifoldMixup(1.0), note])
    trial.with_train_data(*blobs, 20).with_val_data(*blobs, 20).with_test_data(blobs[0], 20)
    for epochs in (1, 2, 3):
        trial.run(epochs)
        assert count() == [0, 0, 0]
        trial.evaluate()
        trial.predict()
    assert max(map(max, wrapped)) == 1
    assert count() == [0, 0, 0]


@TORCH
def test_b30_the_folder_of_tensorboard_is_the_same_at_each_start(kit, line, tmp_path):
    pytest.importorskip("tensorboardX", reason="TensorBoard needs the package 'tensorboardX'")
    net = kit.linear(WEIGHT)
    boards = [TensorBoard(tmp_path, write_graph=False), TensorBoardText(tmp_path)]
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], boards)
    trial.with_train_data(*line, batch_size=6).with_val_data(*line, batch_size=6)
    for epochs in (1, 2, 3):
        trial.run(epochs)
        trial.evaluate()
    (folder,) = {path.parent for path in tmp_path.rglob("events*")}
    scalars = read_events(folder).Scalars("val_loss")
    assert [event.step for event in scalars] == [1, 2, 3]
    assert [event.value for event in scalars] == pytest.approx([record["val_loss"] for record in trial.history])


def test_b30_who_closes_a_shared_writer_first_leaves_it_to_the_others(tmp_path):
    pytest.importorskip("tensorboardX", reason="the writer is of the package tensorboardX")
    one, other = object(), object()
    writer = get_writer(tmp_path, one)
    assert get_writer(tmp_path, other) is writer
    writer.add_scalar("value", 1.0, 1)
    close_writer(tmp_path, one)
    assert get_writer(tmp_path, other) is writer
    writer.add_scalar("value", 2.0, 2)
    close_writer(tmp_path, other)
    assert [(event.step, event.value) for event in read_events(tmp_path).Scalars("value")] == [(1, 1.0), (2, 2.0)]
    fresh = get_writer(tmp_path, one)
    assert fresh is not writer
    close_writer(tmp_path, one)


@pytest.mark.sampled("values")
@BACKENDS
@pytest.mark.parametrize("kind", [MostRecent, Interval])
def test_b32_names_of_checkpoints_need_no_validation(kit, line, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    net = kit.linear(WEIGHT)
    quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], [kind()]).with_train_data(*line, batch_size=12).run(1)
    assert [path.stem for path in tmp_path.iterdir()] == ["model.00"]


@BACKENDS
def test_b32_zero_bias_leaves_layers_without_a_bias_alone(kit):
    """Of two layers one has a bias."""
    if kit.name == "torch":
        nn = importlib.import_module("torch").nn
        net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2, bias=False))
    elif kit.name == "tensorflow":
        keras = importlib.import_module("keras")
        layers = [keras.layers.Dense(4, bias_initializer="ones"), keras.layers.Dense(2, use_bias=False)]
        net = keras.Sequential([keras.layers.Input((3,)), *layers])
    else:
        nnx = importlib.import_module("flax.nnx")
        rngs = nnx.Rngs(0)
        first = nnx.Linear(3, 4, rngs=rngs, bias_init=nnx.initializers.ones)
        net = nnx.Sequential(first, nnx.Linear(4, 2, rngs=rngs, use_bias=False))
    before = kit.weights(net)
    quiet(net, None, kit.mse, [], [ZeroBias()])
    changed = {name for name, value in kit.weights(net).items() if (value != before[name]).any()}
    (name,) = changed
    np.testing.assert_array_equal(kit.weights(net)[name], np.zeros(4))


@pytest.mark.parametrize("kit", ["torch", "tensorflow"], indirect=True)
def test_b34_the_graph_is_that_of_the_real_input(kit, tmp_path):
    pytest.importorskip("tensorboardX", reason="TensorBoard needs the package 'tensorboardX'")
    x = np.array([[0, 1], [2, 3], [4, 0], [1, 1]])
    if kit.name == "torch":
        nn = importlib.import_module("torch").nn
        net = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 2))
    else:
        layers = importlib.import_module("keras").layers
        net = importlib.import_module("keras").Sequential([
            layers.Input((2,), dtype="int64"), layers.Embedding(5, 3), layers.Flatten(), layers.Dense(2),
        ])  # fmt: skip
    board = TensorBoard(tmp_path, write_graph=True)
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], [board])
    trial.with_train_data(x, np.zeros((4, 2), "f4"), batch_size=2).run(1)
    (folder,) = {path.parent for path in tmp_path.rglob("events*")}
    operations = " ".join(node.name + node.op for node in read_events(folder).Graph().node).lower()
    assert "embedding" in operations or "gather" in operations
    assert "linear" in operations or "matmul" in operations


KL = state_key("kl_of_defects")


class Noted(Callback):
    """Has a state under a key of the state."""

    def state_dict(self):
        return {KL: 2.5}


@BACKENDS
def test_t01_checkpoints_hold_no_code(kit, line, tmp_path):
    @traceable
    @on_criterion
    def note(state):
        state[KL] = 2 * state[LOSS]

    def make():
        net = kit.linear(WEIGHT)
        callbacks = [note, Noted(), StepLR(1), EarlyStopping(), MostRecent(str(tmp_path / "newest"))]
        trial = quiet(net, kit.tunable_sgd(net, 0.05), kit.mse, ["loss", KL], callbacks)
        return trial.with_train_data(*line, batch_size=4).with_val_data(*line, batch_size=4)

    trial = make()
    trial.run(2)
    (path,) = tmp_path.glob("newest*")
    if kit.name == "torch":
        importlib.import_module("torch").load(path, weights_only=True)
    else:
        assert b"delira." not in path.read_bytes(), "a class of delira is named"
    again = make().load(path)
    assert again.history == trial.history
    assert again.history[-1][KL] == pytest.approx(2 * again.history[-1]["loss"], rel=1e-5)
    assert kit.stored(trial.state_dict(), tmp_path / "tree")["history"] == trial.history


@BACKENDS
def test_t02_the_rate_falls_on_a_plateau_with_the_torch_of_today(kit, line):
    x, seen = line[0], []
    net = kit.linear(WEIGHT)
    callbacks = [ReduceLROnPlateau(patience=0, factor=0.1), rates_of(lambda: trial, seen)]
    trial = quiet(net, kit.tunable_sgd(net, 1.0), kit.mse, ["loss"], callbacks)
    y = np.zeros((12, 2), "f4")
    trial.with_train_data(0 * x, y, batch_size=12).with_val_data(0 * x, y, batch_size=12).run(4)
    np.testing.assert_allclose(seen, [1.0, 1.0, 0.1, 0.01], rtol=1e-5)


@BACKENDS
def test_t03_grids_of_images_are_made_in_a_real_run(kit, tmp_path):
    pytest.importorskip("tensorboardX", reason="TensorBoard needs the package 'tensorboardX'")
    images, labels = numbered_images(kit, 4, 3)
    net, found = kit.module({"w": 1.0}, lambda net, x: net.w * x), state_key("found")

    class Half(ImagingCallback):
        def on_batch(self, state):
            return state[X][0] / 2

    layout = {"nrow": 2, "padding": 1, "normalize": True, "norm_range": (0.0, 4.0), "pad_value": 1.0}
    grid = MakeGrid(num_images=4, **layout).on_val().to_state(found)
    other = Half().on_val().make_grid(num_images=2, nrow=2, padding=0).to_file(tmp_path / "half_{epoch}.png")
    board = TensorBoardImages(tmp_path, key=X, num_images=4, **layout)
    trial = quiet(net, kit.sgd(net, 0.0), lambda y_pred, y_true: kit.sum(y_pred), [], [grid, other, board])
    trial.with_train_data(images, labels, 2).with_val_data(images, labels, 2).run(1)
    wanted = np.ones((1, 9, 9))
    for number, (row, column) in enumerate(itertools.product((1, 5), (1, 5))):
        wanted[0, row : row + 3, column : column + 3] = number / 4
    np.testing.assert_allclose(trial.state[found], wanted, atol=1e-6)
    image = importlib.import_module("matplotlib.image")
    np.testing.assert_allclose(image.imread(tmp_path / "half_0.png")[:, ::3][0, :2], [0.0, 1.0], atol=0.01)
    (folder,) = {path.parent for path in tmp_path.rglob("events*")}
    (event,) = read_events(folder).Images("Image")
    shown = image.imread(io.BytesIO(event.encoded_image_string))
    shown = shown if shown.ndim == 2 else shown[..., 0]
    np.testing.assert_allclose(shown, wanted[0], atol=0.01)


@TORCH
def test_t03b_live_plots_draw_with_the_packages_of_today(kit, line):
    """What a notebook shows of it is looked at by tests/callbacks/test_live_plot.py, which is slow."""
    pytest.importorskip("matplotlib", reason="the plots are of the package matplotlib")
    net, plot = kit.linear(WEIGHT), LiveLossPlot()
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], [plot])
    history = trial.with_train_data(*line, batch_size=6).with_val_data(*line, batch_size=6).run(3)
    figure = plot.figure()
    (axes,) = (axes for axes in figure.axes if axes.get_title() == "loss")
    drawn = {curve.get_label(): list(curve.get_ydata()) for curve in axes.lines}
    assert drawn["training"] == pytest.approx([record["loss"] for record in history])
    assert drawn["validation"] == pytest.approx([record["val_loss"] for record in history])
    figure.savefig(buffer := io.BytesIO(), format="png")
    assert len(buffer.getvalue()) > 5000


@pytest.mark.parametrize("kit", ["torch", "tensorflow"], indirect=True)
def test_t05_scalars_are_written_without_the_package_tensorboard(kit, line, tmp_path, monkeypatch):
    pytest.importorskip("tensorboardX", reason="TensorBoard needs the package 'tensorboardX'")
    net = kit.linear(WEIGHT)
    trial = quiet(net, kit.sgd(net, 0.05), kit.mse, ["loss"], [TensorBoard(tmp_path)])
    with monkeypatch.context() as hidden:
        for name in [*sys.modules]:
            if name.partition(".")[0] == "tensorboard":
                hidden.delitem(sys.modules, name)
        hidden.setitem(sys.modules, "tensorboard", None)
        history = trial.with_train_data(*line, batch_size=6).run(2)
    (folder,) = {path.parent for path in tmp_path.rglob("events*")}
    scalars = read_events(folder).Scalars("loss")
    assert [event.value for event in scalars] == pytest.approx([record["loss"] for record in history])
