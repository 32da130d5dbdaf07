"""Confusion matrices of passes: the same as scikit-learn's, in every shape they are given out."""

import csv

import numpy as np
import pytest

import delira
from delira import state as keys
from delira.callbacks.decorators import on_step_training, on_step_validation
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError
from delira.training.callbacks import PyCM

pycm = pytest.importorskip("pycm", reason="needs the package 'pycm'")
RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(23, 3)).astype("f4"), RNG.integers(0, 4, 23)
backends = pytest.mark.parametrize("backend", ["torch", "tensorflow", "jax"])


def trial_of(backend, *callbacks, y=Y, n_classes=4, criterion=None, **settings):
    """A linear network of 3 numbers; batches of 5, and one of 3."""
    if backend == "torch":
        torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch'")
        torch.manual_seed(0)
        net = torch.nn.Linear(3, n_classes)
        parts = net, torch.optim.SGD(net.parameters(), 0.5), criterion or torch.nn.CrossEntropyLoss()
    elif backend == "tensorflow":
        pytest.importorskip("tensorflow", reason="the TensorFlow backend needs the package 'tensorflow'")
        import keras

        keras.utils.set_random_seed(0)
        net = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(n_classes)])
        parts = net, keras.optimizers.SGD(0.5), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    else:
        pytest.importorskip("jax", reason="the JAX backend needs the package 'jax'")
        optax, nnx = pytest.importorskip("optax"), pytest.importorskip("flax.nnx")
        loss = optax.softmax_cross_entropy_with_integer_labels
        net = nnx.Linear(3, n_classes, rngs=nnx.Rngs(0))
        parts = net, optax.sgd(0.5), lambda pred, target: loss(pred, target).mean()
    trial = delira.Trial(*parts, callbacks=callbacks, verbose=0, **{"seed": 0, **settings})
    return trial.with_train_data(X, y, 5).with_val_data(X[:13], y[:13], 5, shuffle=False)


def reference(true, scores, n_classes=4):
    from sklearn.metrics import confusion_matrix

    return confusion_matrix(np.concatenate(true), np.concatenate(scores).argmax(axis=1), labels=range(n_classes))


def array_of(matrix):
    return np.array([[row[column] for column in matrix.classes] for row in map(matrix.matrix.get, matrix.classes)])


@pytest.mark.slow_cases("jax")
@backends
def test_matrices_of_validations_and_of_training_are_those_of_scikit_learn(backend):
    seen = {"train": [], "val": []}
    found = {"train": [], "val": []}

    def look(name):
        return lambda state: seen[name].append((np.asarray(state[keys.Y_TRUE]), np.asarray(state[keys.Y_PRED])))

    def keep(name):
        return lambda matrix, state: found[name].append((state[keys.EPOCH], array_of(matrix)))

    trial = trial_of(
        backend,
        on_step_training(look("train")), on_step_validation(look("val")),
        PyCM().with_handler(keep("val")), PyCM().on_train().with_handler(keep("train")),
    )  # fmt: skip
    trial.run(2)
    for name, n_batches in (("train", 5), ("val", 3)):
        assert [epoch for epoch, _ in found[name]] == [0, 1]
        for epoch, matrix in found[name]:
            batches = seen[name][n_batches * epoch : n_batches * (epoch + 1)]
            np.testing.assert_array_equal(matrix, reference(*zip(*batches, strict=True)))


def test_evaluations_and_predictions_are_tests():
    found = []
    callback = PyCM().on_test().with_handler(lambda matrix, state: found.append((state[keys.PHASE], array_of(matrix))))
    trial = trial_of("torch", callback)
    trial.run(1)
    assert not found
    trial.evaluate()
    scores = trial.predict(data_key=keys.VALIDATION_DATA).numpy()
    expected = reference([Y[:13]], [scores])
    assert [phase for phase, _ in found] == ["evaluate", "predict"]
    for _, matrix in found:
        np.testing.assert_array_equal(matrix, expected)
    trial.with_test_data(X, 5).predict()  # without targets
    assert len(found) == 2


def test_yes_and_no_by_the_criterion_and_targets_that_do_not_count():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch'")
    found = []
    y = (Y % 2).astype("f4")[:, None]
    callback = PyCM(classes=["no", "yes"]).with_handler(lambda matrix, state: found.append(matrix))
    trial = trial_of("torch", callback, y=y, n_classes=1, criterion=torch.nn.BCEWithLogitsLoss())
    trial.run(1)
    scores = trial.predict(data_key=keys.VALIDATION_DATA).numpy()
    assert found[0].classes == ["no", "yes"]
    expected = reference([y[:13, 0].astype(int)], [np.concatenate([0 * scores, scores], axis=1)], 2)
    np.testing.assert_array_equal(array_of(found[0]), expected)

    ignored = np.where(np.arange(23) % 3 == 0, -100, Y)
    trial = trial_of("torch", callback := PyCM().to_state("matrix"), y=ignored)
    trial.run(1)
    assert callback.passes == {"val"}
    scores = trial.predict(data_key=keys.VALIDATION_DATA).numpy()
    counts = ignored[:13] != -100
    expected = reference([ignored[:13][counts]], [scores[counts]])
    np.testing.assert_array_equal(array_of(trial.state["matrix"]), expected)


def test_files_are_read_back(tmp_path):
    state_key = delira.state_key("matrix")
    folder = tmp_path / "new"
    callback = (
        PyCM(classes=["a", "b", "c", "d"])
        .to_state(state_key)
        .to_pycm_file(folder / "cm_{epoch}").to_html_file(folder / "cm_{epoch}")
        .to_csv_file(folder / "cm_{epoch}").to_obj_file(folder / "cm_{epoch}")
    )  # fmt: skip
    trial = trial_of("torch", callback)
    trial.run(2)
    names = [f"cm_{epoch}{ending}" for epoch in (0, 1) for ending in (".csv", ".html", ".obj", ".pycm", "_matrix.csv")]
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    matrix = trial.state[state_key]
    with open(folder / "cm_1.obj") as file:
        assert pycm.ConfusionMatrix(file=file) == matrix
    with open(folder / "cm_1_matrix.csv") as file:
        np.testing.assert_array_equal(np.array(list(csv.reader(file)), int), array_of(matrix))
    (accuracy,) = [line for line in (folder / "cm_1.pycm").read_text().splitlines() if line.startswith("Overall ACC")]
    assert float(accuracy.split()[-1]) == pytest.approx(matrix.Overall_ACC, abs=1e-5)
    assert "PyCM Report" in (folder / "cm_1.html").read_text()


@pytest.mark.parametrize("statistics", [False, True])
def test_the_console_has_the_matrix(capfd, statistics):
    trial = trial_of("torch", PyCM(classes=["a", "b", "c", "d"]).to_state("matrix").to_console(statistics))
    trial.run(1)
    told, matrix = capfd.readouterr(), trial.state["matrix"]
    assert told.out == ""
    assert str(matrix).startswith(told.err.rstrip())
    rows = [line.split() for line in told.err.splitlines() if line.split()[:1] in (["a"], ["b"], ["c"], ["d"])]
    assert [[int(one) for one in row[1:]] for row in rows] == array_of(matrix).tolist()
    assert ("Overall Statistics" in told.err) == statistics


def test_a_picture_is_shown():
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs the package 'matplotlib'")
    pyplot.switch_backend("Agg")
    trial_of("torch", PyCM().to_pyplot(title="epoch {epoch}", normalized=True)).run(1)
    (title,) = [axes.get_title() for axes in pyplot.gcf().axes if axes.get_title()]
    assert title == "epoch 0 (Normalized)"
    pyplot.close("all")


def test_a_pass_that_is_continued_is_counted_on(tmp_path):
    found = []

    def callback():
        return PyCM().on_train().with_handler(lambda matrix, state: found.append(array_of(matrix)))

    @on_step_training
    def stop(state):
        if state[keys.BATCH] == 2:
            state[keys.SELF].trainer.saving.save(["last"])
            raise RuntimeError("on purpose")

    trial_of("torch", callback()).run(1)
    with pytest.raises(RuntimeError, match="on purpose"):
        trial_of("torch", callback(), stop, save_path=tmp_path).run(1)
    trial_of("torch", callback(), save_path=tmp_path).run(1)
    assert found[0].sum() == 23
    np.testing.assert_array_equal(found[1], found[0])


@pytest.mark.slow_cases("jax")
@pytest.mark.parametrize("kit", ["torch", "tensorflow", "jax"], indirect=True)
def test_an_experiment_has_it_too(kit, tmp_path):
    found = []
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, (11, 1)).astype("f4")
    data = BaseDataManager({"data": rng.normal(size=(11, 3)).astype("f4"), "label": labels}, 4)
    callback = PyCM().with_handler(lambda matrix, state: found.append(array_of(matrix)))
    trainer = kit.trainer(tmp_path, callbacks=[callback], output="probabilities")  # nobody knows the losses of tests
    trainer.train(1, data, data)
    scores = np.asarray(trainer.predict(data)[0][0])
    expected = reference([labels[:, 0].astype(int)], [np.concatenate([0 * scores + 0.5, scores], axis=1)], 2)
    np.testing.assert_array_equal(found[0], expected)


def test_a_label_beyond_the_classes_is_named():
    with pytest.raises(DataError, match="the metric 'PyCM' counts labels from 0 to 1, and got some from 0 to 3"):
        trial_of("torch", PyCM(num_classes=2)).run(1)


def test_what_cannot_be_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="PyCM: sample_weight cannot be given: the labels are those of the fit"):
        PyCM(sample_weight=[1])
    with pytest.raises(ConfigError, match="PyCM takes no argument 'clases'; did you mean 'classes'"):
        trial_of("torch", PyCM(clases=["a"])).run(1)
    two = PyCM().on_train().on_val().to_obj_file(tmp_path / "cm")
    with pytest.raises(ConfigError, match=r"PyCM: the name .* would be the same in the passes train, val; put \{data"):
        trial_of("torch", two).run(1)
    with pytest.raises(ConfigError, match=r"PyCM: the name .* has the field 'epok'"):
        trial_of("torch", PyCM().to_obj_file(tmp_path / "cm_{epok}")).run(1)
