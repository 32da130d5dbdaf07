"""Mistakes are refused early, in words that say what to do."""

import copy
import functools
import itertools
from typing import Any

import numpy as np

from delira.errors import ConfigError, DataError, MissingKeyError, NetworkError
from delira.testing.spec.bench import Bench, caught
from delira.testing.spec.check import REFUSALS, check, demand_refusal
from delira.testing.spec.reference import rmse


@check()
def refuses_what_it_lacks(bench: Bench) -> None:
    """What the backend does not offer is refused when a user asks for it, and never ignored."""
    for feature in bench.tested.lacks:
        if feature in REFUSALS:
            demand_refusal(bench, feature)


@check()
def refuses_unknown_settings(bench: Bench) -> None:
    """Unknown settings are refused, all in one message, each with a guess."""
    caught(ConfigError, lambda: bench.trainer(vall_metrics={}, sead=1), "vall_metrics", "val_metrics", "sead", "seed")
    caught(ConfigError, lambda: bench.experiment(vall_metrics={}), "vall_metrics", "val_metrics")


@check("gradients")
def refuses_to_train_without_losses(bench: Bench) -> None:
    """The default closure without a loss is refused."""
    caught(ConfigError, lambda: bench.trainer(losses={}), "losses")


@check("gradients")
def refuses_to_train_without_an_optimizer(bench: Bench) -> None:
    """Settings without an optimizer are refused, or the backend has a default one."""
    settings = dict.fromkeys(bench.tested.sgd(0.1))
    try:
        names = sorted(bench.trainer(**settings).optimizers)
    except ConfigError as error:
        names = ["default"] if "optimizer" in str(error) else [str(error)]
    assert names == ["default"], f"without an optimizer there are {names}"


@check("gradients")
def refuses_wrong_optimizer_arguments(bench: Bench) -> None:
    """Arguments that the optimizer does not take are refused, before training, by name."""
    params = {"lr": 0.1, "no_such_argument": 1}
    caught((ConfigError, TypeError, ValueError), lambda: bench.trainer(optimizer_params=params), "no_such_argument")


@check("gradients")
def names_missing_entries(bench: Bench) -> None:
    """A batch without what the loss reads is refused before the first step; the error says who reads what."""
    arrays = bench.arrays()
    data = bench.manager(arrays={"data": arrays["data"], "target": arrays["label"]})
    caught(MissingKeyError, lambda: bench.trained(1, data), "'mse'", "'label'", "loss_keys")


@check()
def names_missing_inputs(bench: Bench) -> None:
    """A batch without what the network reads is refused; the error names ``key_mapping``."""
    arrays = bench.arrays()
    data = bench.manager(arrays={"image": arrays["data"], "label": arrays["label"]})
    caught(MissingKeyError, lambda: bench.trained(1, data), "'data'", "key_mapping")


@check("gradients")
def refuses_wrong_key_mappings(bench: Bench) -> None:
    """A ``key_mapping`` that names no argument of the network, or no entry of the batch, is refused."""
    caught((ConfigError, MissingKeyError), lambda: bench.trained(key_mapping={"x": "nothing"}), "nothing")
    if bench.backend.calls.arguments_of(bench.linear()) is not None:
        caught(ConfigError, lambda: bench.trained(key_mapping={"no_argument": "data"}), "no_argument")


@check("gradients")
def refuses_losses_that_are_no_number(bench: Bench) -> None:
    """A loss with one value for each sample is refused, and named."""
    losses = {"unreduced": lambda prediction, target: (prediction - target) ** 2}
    caught(NetworkError, lambda: bench.trained(losses=losses), "loss")


@check()
def refuses_classes(bench: Bench) -> None:
    """A network class in place of a network is refused."""
    caught(NetworkError, lambda: bench.trainer(bench.tested.Linear), "instance")


@check()
def refuses_absent_gpus(bench: Bench) -> None:
    """A GPU that is not there is an error, never silently the CPU."""
    caught(ConfigError, lambda: bench.trainer(gpu_ids=[99]), "99")
    caught(ConfigError, lambda: bench.trainer(device="cuda:99"), "99")


@check()
def refuses_unknown_devices(bench: Bench) -> None:
    """A device that does not exist is refused; ``"cpu"`` and ``"auto"`` are not."""
    for device in ("cpu", "auto"):
        bench.trainer(device=device)
    caught(ConfigError, lambda: bench.trainer(device="no such device"), "no such device")


@check("gradients")
def keeps_the_users_errors(bench: Bench) -> None:
    """An error of the user's own loss keeps its type, and is told which loss it was."""

    class Mine(Exception):
        pass

    def breaks_after(n_calls: int) -> Any:
        calls = itertools.count()

        def loss(prediction: object, target: object) -> Any:
            if next(calls) < n_calls:
                return bench.tested.mse(prediction, target)
            raise Mine("of the user's")

        return loss

    for n_calls in (0, 1):  # the first call tries the loss before the training, the second one is in a step
        caught(Mine, functools.partial(bench.trained, losses={"broken": breaks_after(n_calls)}), "broken")


@check()
def refuses_data_without_batches(bench: Bench) -> None:
    """Data that gives no batch is refused."""
    caught(DataError, lambda: bench.trained(1, []), "no batch")


@check()
def refuses_unknown_scores(bench: Bench) -> None:
    """A score that nothing computes is refused before training."""
    ask = functools.partial(bench.trained, 1, None, bench.manager(), "accuracy", val_metrics={"rmse": rmse})
    caught(ConfigError, ask, "accuracy")


@check()
def refuses_wrong_features(bench: Bench) -> None:
    """Inputs that do not fit the network raise an error, and leave the trainer usable."""
    trainer = bench.trained()
    with bench.unchanged(lambda: bench.state(trainer), "the state after a prediction that failed"):
        caught(Exception, lambda: trainer.predict({"data": np.zeros((4, 5)), "label": np.zeros((4, 1))}))
    assert trainer.predict(bench.arrays(4))["pred"].shape[0] == 4


@check()
def refuses_unnamed_outputs(bench: Bench) -> None:
    """What a network returns must be a dict of named outputs; the error names the network."""
    trainer = bench.trained()
    trainer.backend = copy.copy(bench.backend)
    trainer.backend.calls = _Unnamed(bench.backend.calls)
    caught(NetworkError, lambda: trainer.predict(bench.arrays(4)), type(trainer.module).__name__)


class _Unnamed:
    """Calls of a backend whose networks return an array."""

    def __init__(self, calls: Any):
        self._calls = calls

    def forward(self, network: object, inputs: object) -> Any:
        return next(iter(self._calls.forward(network, inputs).values()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._calls, name)
