"""The test of a trained network on data of its own."""

from collections.abc import Mapping
from typing import Any

from delira.callbacks.abstract_callback import CallbackList
from delira.errors import DataError, NetworkError, check_known, noting
from delira.experiments.keywords import PredictionKeywords
from delira.experiments.run_request import check_mapping
from delira.training import checks, evaluation
from delira.training.epoch import close_workers, with_names
from delira.training.outputs import OutputReadings


def test_network(experiment: Any, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Predict a data set with a trained network; see :meth:`BaseExperiment.test`.

    Parameters
    ----------
    experiment
        Whose settings count.
    arguments
        Of the method by name.
    """
    network, metrics, metric_keys = (arguments[name] for name in ("network", "metrics", "metric_keys"))
    kwargs, verbose = arguments["kwargs"], arguments["verbose"]
    check_known(kwargs, PredictionKeywords.__annotations__, "test takes no")
    (test_data,) = with_names(arguments["data_keys"], arguments["test_data"])
    checks.check_data(test_data, "test")
    check_mapping(metrics=metrics, metric_keys=metric_keys)
    if not callable(getattr(network, "prepare_batch", kwargs.get("prepare_batch"))) or isinstance(network, type):
        raise NetworkError(f"test needs a trained network, such as run returns, got {network!r}")
    request = experiment.resolve(None, {"num_epochs": 0})
    config, backend = request.config, experiment.backend
    tested = config.epoch_metrics if metrics is None else metrics
    key_mapping = kwargs.get("key_mapping") or request.key_mapping
    convert = kwargs.get("convert_fn") or config.convert_batch_to_npy_fn
    predictor = experiment.predictor_cls(network, key_mapping, convert, kwargs.get("prepare_batch"), backend=backend)
    predictor.nonfinite_predictions, predictor.inference = config.guards.nonfinite_predictions, config.inference
    keys = config.keys_of(tested) if metric_keys is None else metric_keys
    with noting("in the test"):
        bound = config.bound(tested, keys, backend)
        readings = OutputReadings(config, backend, bound, keys)
        trainer = experiment.last_trainer
        outputs = {} if trainer is None or trainer.module is not network else trainer.state.outputs
        predictor.follow(readings, outputs)
        callbacks = CallbackList(experiment.settings.get("callbacks") or ())
        hears = callbacks.hears("at_iter_begin") or callbacks.hears("at_iter_end")
        watcher = evaluation.Iterations(callbacks, predictor) if hears else None
        done = predictor.evaluate(test_data, metrics=bound, metric_keys=keys, verbose=verbose, watcher=watcher)
    close_workers(test_data)
    if not done.predictions:
        raise DataError("the test data gave no batch; a generator can be gone through only once")
    return done.predictions, done.metrics
