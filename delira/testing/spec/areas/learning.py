"""Training is the descent it says it is, and its numbers are exact."""

from typing import Any

import numpy as np

from delira.testing.spec.bench import Bench, split
from delira.testing.spec.check import check
from delira.testing.spec.reference import Adam, Sgd, descend, mse, mse_slope, rmse


@check()
def learns(bench: Bench) -> None:
    """Training makes predictions better than the mean of the labels."""
    data = bench.manager(20)
    trainer = bench.trained(8, data, data, val_metrics={"rmse": rmse})
    trivial = float(np.std(data.dataset.data["label"]))
    found = trainer.state.history[-1]["val_rmse"]
    assert found < 0.5 * trivial, f"the error is {found:.3g} after 8 epochs, that of the mean {trivial:.3g}"


@check("gradients")
def lowers_the_loss(bench: Bench) -> None:
    """Training lowers the loss."""
    losses = [record["mse"] for record in bench.trained(6, bench.manager(20)).state.history]
    assert losses[-1] < 0.2 * losses[0], f"the losses of the epochs are {losses}"


@check("gradients")
def is_gradient_descent(bench: Bench) -> None:
    """Without momentum, three epochs of batches of 4, 4 and 2 samples are gradient descent by hand."""
    trainer = bench.trained(3, bench.manager(10), **bench.tested.sgd(0.1))
    bench.assert_descended(trainer, bench.batches(10), 3, Sgd(0.1))


@check("gradients")
def has_momentum(bench: Bench) -> None:
    """With momentum, the velocity lasts over steps and epochs as by hand."""
    trainer = bench.trained(3, bench.manager(10), **bench.tested.sgd(0.05, 0.9))
    bench.assert_descended(trainer, bench.batches(10), 3, Sgd(0.05, 0.9))


@check("gradients", "adam")
def is_adam(bench: Bench) -> None:
    """Adam is Adam by hand, its bias corrections included."""
    bench.assert_descended(bench.trained(3, **bench.tested.adam(0.05)), bench.batches(), 3, Adam(0.05))


@check("gradients", "several_outputs")
def learns_several_outputs(bench: Bench) -> None:
    """The loss is the mean over samples and outputs."""
    trainer = bench.trained(2, bench.manager(n_outputs=2), network=bench.linear(3, 2))
    bench.assert_descended(trainer, bench.batches(n_outputs=2), 2)


@check("gradients", "absolute")
def minimises_the_sum_of_its_losses(bench: Bench) -> None:
    """Several losses are added, and each has its value in the history."""

    def slope(prediction: np.ndarray, target: np.ndarray) -> np.ndarray:
        return mse_slope(prediction, target) + np.sign(prediction - target) / prediction.size

    trainer = bench.trained(losses={"mse": bench.tested.mse, "absolute": bench.tested.absolute})
    batches = bench.batches()
    bench.assert_history(trainer, "mse", bench.assert_descended(trainer, batches, slope=slope))
    _, predictions = descend(bench.dense(), batches, slope=slope)
    errors = np.concatenate(predictions) - bench.arrays()["label"]
    bench.assert_history(trainer, "absolute", [np.abs(errors).mean()])


@check("gradients", "several_outputs", "cross_entropy")
def classifies(bench: Bench) -> None:
    """Cross entropy takes integers of shape (B,) as they come from the data."""
    rng = np.random.default_rng(5)
    arrays = {"data": rng.normal(size=(9, 3)), "label": rng.integers(0, 3, size=9)}

    def slope(prediction: np.ndarray, target: np.ndarray) -> np.ndarray:
        exponents = np.exp(prediction - prediction.max(axis=1, keepdims=True))
        return (exponents / exponents.sum(axis=1, keepdims=True) - np.eye(3)[target]) / len(target)

    settings = {"losses": {"ce": bench.tested.cross_entropy}, **bench.tested.sgd(0.5, 0.5)}
    data = bench.manager(batch_size=3, arrays=arrays)
    trainer = bench.trained(2, data, network=bench.linear(3, 3), **settings)
    bench.assert_descended(trainer, split(arrays, 3), 2, Sgd(0.5, 0.5), slope=slope)
    assert trainer.state.history[1]["ce"] < trainer.state.history[0]["ce"]


@check("gradients")
def weights_losses_by_samples(bench: Bench) -> None:
    """The loss of an epoch counts every sample once, though its last batch is shorter."""
    trainer = bench.trained(2, bench.manager(9))
    bench.assert_history(trainer, "mse", bench.assert_descended(trainer, bench.batches(9), 2))


@check("gradients")
def weights_training_metrics_by_samples(bench: Bench) -> None:
    """Training metrics are computed in the step, on its predictions, and averaged by samples."""
    trainer = bench.trained(data=bench.manager(10), train_metrics={"again": bench.tested.mse})
    bench.assert_history(trainer, "again", bench.assert_descended(trainer, bench.batches(10)))


def _validated(bench: Bench, **settings: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """A trainer after one epoch, and what it was validated on in batches of 3, 3 and 1."""
    arrays = bench.arrays(7, seed=1)
    return bench.trained(1, None, bench.manager(batch_size=3, arrays=arrays), **settings), arrays


@check("gradients")
def validates_losses(bench: Bench) -> None:
    """Validation losses are those of the network as it is after the epoch, weighted by samples."""
    trainer, arrays = _validated(bench)
    weight, bias = bench.tested.read(trainer.module)
    bench.assert_history(trainer, "val_mse", [mse(arrays["data"] @ weight + bias, arrays["label"])])


@check()
def validates_exactly(bench: Bench) -> None:
    """Validation metrics are those of all samples at once, and no mean of batches."""
    trainer, arrays = _validated(bench, val_metrics={"rmse": rmse})
    pred = trainer.predict(arrays)["pred"]
    bench.assert_history(trainer, "val_rmse", [rmse(arrays["label"], pred)])
    if bench.is_differentiable:
        weight, bias = bench.tested.read(trainer.module)
        bench.assert_close(pred, arrays["data"] @ weight + bias, "the prediction")


@check()
def averages_metrics_of_samples(bench: Bench) -> None:
    """A metric of single samples has one value for each; the history has their mean."""

    def distance(y_true: np.ndarray, y_pred: np.ndarray) -> float:
        return float(np.abs(y_true - y_pred).max())

    distance.over = "sample"  # type: ignore[attr-defined]
    trainer, arrays = _validated(bench, val_metrics={"distance": distance})
    pred = trainer.predict(arrays)["pred"]
    bench.assert_history(trainer, "val_distance", [np.abs(arrays["label"] - pred).mean()])


@check("gradients")
def measures_training_exactly(bench: Bench) -> None:
    """Metrics over a training epoch are those of the predictions of its steps, each before its update."""
    trainer = bench.trained(data=bench.manager(10), metrics={"rmse": rmse})
    _, predictions = descend(bench.dense(), bench.batches(10))
    bench.assert_history(trainer, "rmse", [rmse(bench.arrays(10)["label"], np.concatenate(predictions))])


@check("gradients")
def reduces_as_told(bench: Bench) -> None:
    """``reduce_mode`` makes one number of the steps of an epoch: their sum, the first or the last."""
    trainer, data = bench.trainer(), bench.manager()
    losses, _ = descend(bench.dense(), 3 * bench.batches())
    expected = {"sum": losses[0] + losses[1], "first_only": losses[2], "last_only": losses[5]}
    for epoch, mode in enumerate(expected, 1):
        trainer.train(epoch, data, reduce_mode=mode)
        bench.assert_close(trainer.state.history[-1]["mse"], expected[mode], f"the loss by reduce_mode={mode!r}")


@check()
def keeps_its_history(bench: Bench) -> None:
    """The history has every value of every epoch, validation only where ``val_freq`` says, and is on disk too."""
    trainer = bench.trained(3, None, bench.manager(), val_metrics={"rmse": rmse}, val_freq=2)
    history = trainer.state.history
    assert [record["epoch"] for record in history] == [1, 2, 3][: len(history)], f"the history is {history}"
    validated = [record["epoch"] for record in history if "val_rmse" in record]
    if bench.is_differentiable:
        assert validated == [2], f"val_freq=2, but the epochs {validated} were validated"
        assert all({"mse", "lr"} <= record.keys() for record in history), f"the history is {history}"
    lines = (trainer.save_path / "history.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + len(history), f"history.csv has {len(lines)} lines for {len(history)} epochs"
