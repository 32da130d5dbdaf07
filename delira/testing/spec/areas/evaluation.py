"""Prediction changes nothing, and gives back what it borrowed."""

import contextlib
from types import SimpleNamespace

import numpy as np

from delira.contract import StepHooks
from delira.testing.spec.bench import Bench, caught, split
from delira.testing.spec.check import check
from delira.testing.spec.reference import descend, mse, rmse
from delira.training import Predictor


@check()
def predicts_without_learning(bench: Bench) -> None:
    """Predictions leave weights, optimizers and generators as they were, bit for bit."""
    trainer = bench.trained()
    with (
        bench.unchanged(lambda: bench.state(trainer), "the state after predictions"),
        bench.unchanged(bench.backend.generators.state, "the generator after predictions"),
    ):
        trainer.predict(bench.arrays(4))
        trainer.predict(bench.manager())


@check("gradients")
def predicts_by_hand(bench: Bench) -> None:
    """A prediction is the network's, as an array of numpy with the samples first."""
    arrays = bench.arrays(5)
    found = bench.trainer().predict(arrays)["pred"]
    assert type(found) is np.ndarray, f"a prediction is a {type(found).__name__}"
    bench.assert_close(found, bench.dense()(arrays["data"]), "the prediction")


@check()
def predicts_data_sets_as_batches(bench: Bench) -> None:
    """Over ragged batches predictions are those of the whole, in the order of the data."""
    trainer, arrays = bench.trained(), bench.arrays(10)
    outputs, labels, _ = trainer.predict(bench.manager(10, 4))
    bench.assert_close(outputs[0], trainer.predict(arrays)["pred"], "the predictions of the data set")
    bench.assert_same(labels[0], arrays["label"], "the labels of the data set")
    singly = [trainer.predict(one)["pred"] for one in split(arrays, 1)[:2]]
    bench.assert_close(np.concatenate(singly), outputs[0][:2], "the predictions of single samples")


@check()
def predicts_alike_everywhere(bench: Bench) -> None:
    """A ``Predictor`` of the trained network gives the bits of its trainer."""
    trainer = bench.trained()
    alone = Predictor(trainer.module).predict(bench.arrays(5))
    bench.assert_same(alone, trainer.predict(bench.arrays(5)), "the predictions of Predictor and trainer")


@check("dropout")
def drops_nothing_in_prediction(bench: Bench) -> None:
    """Dropout acts in training steps, and neither in predictions nor in the validation."""
    arrays, dense = bench.arrays(), bench.dense()
    trainer = bench.trained(2, None, bench.manager(), network=bench.linear(dropout=0.5))
    descend(dense, 2 * bench.batches())
    weight, bias = bench.tested.read(trainer.module)
    assert not np.allclose(weight, dense.weight, rtol=0.01), "training with dropout equals training without"
    expected = arrays["data"] @ weight + bias
    bench.assert_close(trainer.predict(arrays)["pred"], expected, "the prediction of a network with dropout")
    found = trainer.state.history[-1]["val_mse"]
    bench.assert_close(found, mse(expected, arrays["label"]), "the loss of the validation")


@check("mlp")
def keeps_statistics_in_prediction(bench: Bench) -> None:
    """Batch normalisation gathers statistics in training steps, and neither in predictions nor in the validation."""
    trainer = bench.trainer(bench.mlp())
    with bench.unchanged(lambda: bench.state(trainer), "the state of a fresh network after a prediction"):
        trainer.predict(bench.arrays())
    fresh = bench.weights(trainer.module)
    trainer.train(1, bench.manager())
    validated = bench.trained(1, None, bench.manager(seed=1), network=bench.mlp())
    bench.assert_same(bench.state(trainer)["tree"], bench.state(validated)["tree"], "the state after a validation")
    names = bench.backend.weights.learned_names(trainer.module)
    statistics = [name for name in fresh if name not in names]
    changed = bench.differences(fresh, bench.weights(trainer.module))
    assert set(statistics) & set(changed), f"no statistic changed in training; the state has {statistics}"


@check("mlp")
def predicts_samples_independently(bench: Bench) -> None:
    """In evaluation mode a prediction does not depend on the other samples of its batch, batch normalisation or not."""
    trainer, arrays = bench.trained(network=bench.mlp()), bench.arrays(6)
    whole, part = (trainer.predict(given)["pred"] for given in (arrays, split(arrays, 2)[0]))
    bench.assert_close(part, whole[:2], "the prediction of a part of a batch", factor=0.1)


@check("gradients")
def learns_only_in_its_scopes(bench: Bench) -> None:
    """The scope of training switches the network to learning, that of evaluation off; each gives the mode back."""
    network, tested = bench.linear(dropout=0.5 if "dropout" not in bench.tested.lacks else 0.0), bench.tested
    before = tested.is_learning(network)
    with bench.backend.calls.training(network):
        assert tested.is_learning(network), "the network does not learn in the scope of training"
        with bench.backend.calls.evaluating(network):
            assert not tested.is_learning(network), "the network learns in the scope of evaluation"
        assert tested.is_learning(network), "evaluation inside training did not give the mode back"
    assert tested.is_learning(network) is before, "training did not give the mode back"
    with bench.backend.calls.evaluating(network), bench.backend.calls.training(network):
        assert tested.is_learning(network), "the network does not learn in training inside evaluation"
    assert tested.is_learning(network) is before, "evaluation did not give the mode back"


@check("gradients")
def gives_modes_back_after_an_error(bench: Bench) -> None:
    """A training, or a prediction, that fails leaves the network in the mode it had."""
    trainer = bench.trainer()
    network = trainer.module
    before = bench.tested.is_learning(network)
    for scope in (bench.backend.calls.training, bench.backend.calls.evaluating):
        with contextlib.suppress(KeyboardInterrupt), scope(network):
            raise KeyboardInterrupt
        assert bench.tested.is_learning(network) is before, (
            f"the scope of {scope.__name__} kept the mode after an error"
        )
    broken = {"data": bench.arrays(4)["data"][:, :2], "label": bench.arrays(4)["label"]}
    caught(Exception, lambda: trainer.train(1, [broken]))  # a batch with too few features
    assert bench.tested.is_learning(network) is before, "a training that failed kept the mode"


@check("gradients", "hooks")
def learns_in_steps_only(bench: Bench) -> None:
    """The network learns in every step; callbacks and validation see it as it was before."""
    network, seen = bench.linear(), []

    def look(*event: object, **facts: object) -> None:
        seen.append(bench.tested.is_learning(network))

    before = bench.tested.is_learning(network)
    trainer = bench.trainer(network, callbacks=[SimpleNamespace(at_epoch_end=look)])
    trainer.hooks = StepHooks(sample=(look,))
    trainer.train(1, bench.manager(), bench.manager())
    assert seen == [True, True, before], f"learning in two steps and at the end of the epoch: {seen}"


@check()
def tests_what_was_trained(bench: Bench) -> None:
    """``predict_data_mgr`` and its like give exact metrics of the same predictions."""
    trainer, arrays, data = bench.trained(), bench.arrays(10), bench.manager(10, 4)
    pred = trainer.predict(arrays)["pred"]
    (found, metrics), *more = trainer.predict_data_mgr_cache_all(data, metrics={"rmse": rmse})
    assert not more, "predict_data_mgr_cache_all yields one result"
    bench.assert_close(found["pred"], pred, "the predictions")
    bench.assert_close(metrics["rmse"], [rmse(arrays["label"], pred)], "the metric")
    singly = [np.asarray(one["pred"]) for one, _ in trainer.predict_data_mgr(data)]
    bench.assert_close(np.concatenate(singly), pred, "the predictions batch by batch")
