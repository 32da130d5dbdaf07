"""A training that was broken off and continued is, bit for bit, the one that was not."""

from collections.abc import Callable
from typing import Any

from delira.callbacks import EarlyStopping, ExponentialMovingAverage
from delira.testing.spec.bench import Bench, caught
from delira.testing.spec.check import check
from delira.testing.spec.reference import rmse

Build = Callable[..., Any]


class Broken(Exception):
    """What breaks a training off."""


class BreakOff:
    """Raises after a step."""

    def __init__(self, global_step: int):
        self.global_step = global_step

    def at_iter_end(self, trainer: object, *, global_iter_num: int, **facts: Any) -> None:
        if global_iter_num + 1 == self.global_step:
            raise Broken


def _build(
    bench: Bench, make: Callable[[], Any] | None = None, *callbacks: Callable[[], Any], **settings: Any
) -> Build:
    def build(path: Any = None, more: Any = (), **changes: Any) -> Any:
        given = {"val_metrics": {"rmse": rmse}, "seed": 3, **settings, **changes}
        return bench.trainer(make and make(), path, callbacks=[*(one() for one in callbacks), *more], **given)

    return build


def _train(bench: Bench, trainer: Any, n_epochs: int = 2) -> Any:
    trainer.train(n_epochs, bench.shuffled(12), bench.manager(), "rmse")
    return trainer


def _compare_after_an_epoch(bench: Bench, build: Build) -> None:
    """Train two epochs of three steps unbroken, and one after the other by two trainers."""
    continued = build(path=_train(bench, build(), 1).save_path)
    assert continued.state.epoch == 1, f"it continues from epoch {continued.state.epoch}"
    _compare(bench, build, continued)


def _compare_inside(bench: Bench, build: Build) -> None:
    """Train two epochs of three steps unbroken, and broken off after the fourth step of the run and continued."""
    first = build(more=[BreakOff(5)], save_freq_steps=1)
    caught(Broken, lambda: _train(bench, first))
    continued = build(path=first.save_path)
    reached = continued.state.global_step
    assert reached == 4, f"it continues from step {reached} of the run, not 4"
    _compare(bench, build, continued)


def _compare(bench: Bench, build: Build, continued: Any) -> None:
    whole = _train(bench, build())
    _train(bench, continued)
    bench.assert_same(bench.state(whole), bench.state(continued), "the unbroken and the continued training")
    assert whole.state.best_epoch == continued.state.best_epoch, "the best epoch is another one"


@check("steps")
def after_an_epoch(bench: Bench) -> None:
    """Weights, momentum, history and best score go on after an epoch."""
    _compare_after_an_epoch(bench, _build(bench))


@check()
def keeps_a_finished_training(bench: Bench) -> None:
    """A trainer on the folder of a finished training has its weights and history, and trains no further."""
    trainer = bench.trained(2, None, bench.manager(), val_metrics={"rmse": rmse})
    other = bench.trainer(path=trainer.save_path, val_metrics={"rmse": rmse})
    bench.assert_same(bench.state(trainer), bench.state(other), "a finished training that was found again")
    other.train(2, bench.manager(), bench.manager())
    bench.assert_same(bench.state(trainer), bench.state(other), "a finished training that was asked to train")
    bench.assert_same(trainer.predict(bench.arrays(4)), other.predict(bench.arrays(4)), "its predictions")


@check("steps")
def in_the_same_trainer(bench: Bench) -> None:
    """``train(1)`` and then ``train(2)`` is ``train(2)``, though the best weights were loaded between."""
    build = _build(bench)
    whole, steps = _train(bench, build()), _train(bench, _train(bench, build(), 1))
    bench.assert_same(bench.state(whole), bench.state(steps), "training at once and epoch by epoch")


@check("steps", "resume_inside")
def inside_an_epoch(bench: Bench) -> None:
    """So does a training that was broken off between two steps of an epoch."""
    _compare_inside(bench, _build(bench))


@check("gradients", "resume_inside", "dropout")
def with_dropout(bench: Bench) -> None:
    """What dropout draws goes on inside an epoch."""
    _compare_inside(bench, _build(bench, lambda: bench.linear(dropout=0.5)))


@check("gradients", "resume_inside", "mlp")
def with_statistics(bench: Bench) -> None:
    """Statistics of batch normalisation go on inside an epoch, together with dropout."""
    _compare_inside(bench, _build(bench, lambda: bench.mlp(0.0 if "dropout" in bench.tested.lacks else 0.4)))


@check("gradients", "adam", "resume_inside")
def with_adam(bench: Bench) -> None:
    """The moments and the step counter of Adam go on."""
    _compare_inside(bench, _build(bench, **bench.tested.adam(0.05)))


@check("gradients")
def with_a_schedule(bench: Bench) -> None:
    """The learning rate goes on where its schedule was."""

    def build(path: Any = None) -> Any:
        return bench.trainer(None, path, **{"val_metrics": {"rmse": rmse}, "seed": 3, **bench.tested.halving()})

    _compare_after_an_epoch(bench, build)


@check("gradients", "accumulation", "resume_inside")
def inside_a_group(bench: Bench) -> None:
    """Gradients that were accumulated before the end are there after it."""
    _compare_inside(bench, _build(bench, gradient_accumulation_steps=2))


@check("gradients", "average", "resume_inside")
def with_an_average(bench: Bench) -> None:
    """The averaged weights go on, and so do those that are trained."""
    _compare_inside(bench, _build(bench, None, lambda: ExponentialMovingAverage(0.8)))


@check("gradients", "gan", "resume_inside")
def with_two_optimizers(bench: Bench) -> None:
    """Every optimizer goes on with its own state."""

    def make() -> Any:
        network = bench.tested.Gan(n_features=3)
        bench.layers(network, "gen", "discr")
        return network

    def trained(n_epochs: int, path: Any = None) -> Any:
        arrays = bench.arrays()
        data = bench.shuffled(arrays={"data": arrays["data"], "real": arrays["data"] + 1})
        settings = {**bench.tested.sgd(0.02, 0.5), **bench.tested.gan_optimizers(), "losses": {}}
        return bench.trained(n_epochs, data, network=make(), path=path, **settings)

    whole, continued = trained(2), trained(2, trained(1).save_path)
    bench.assert_same(bench.state(whole), bench.state(continued), "the unbroken and the continued training")


@check("steps")
def with_callbacks(bench: Bench) -> None:
    """Callbacks go on with what they had counted."""
    build = _build(bench, None, lambda: EarlyStopping("rmse", min_delta=1e9, patience=2))
    continued = _train(bench, build(path=_train(bench, build()).save_path), 9)
    assert continued.state.epoch == 3, f"early stopping came after epoch {continued.state.epoch}, not 3"


@check("steps")
def after_a_failure(bench: Bench) -> None:
    """A training that failed inside an epoch begins that epoch again, in the same trainer too."""
    whole, trainer = _train(bench, _build(bench)()), _build(bench)(more=[once := BreakOff(5)], save_freq=1)
    caught(Broken, lambda: _train(bench, trainer))
    once.global_step = -1
    _train(bench, trainer)
    bench.assert_same(bench.state(whole), bench.state(trainer), "the unbroken training and the one that failed")


@check("resume_inside")
def says_if_it_cannot(bench: Bench) -> None:
    """A network whose training can be continued inside an epoch says nothing against it."""
    why = bench.backend.generators.not_resumable(bench.linear())
    assert why is None, f"it says: {why}"
