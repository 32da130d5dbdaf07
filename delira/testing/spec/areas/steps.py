"""The step: what a closure is given, what hooks inside it change, several networks in one."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from delira.contract import Step, StepHooks
from delira.testing.spec.bench import Bench, split
from delira.testing.spec.check import check
from delira.testing.spec.reference import Batch, Dense, Sgd, descend, mse, mse_slope


def _trained_by_hand(bench: Bench, n_epochs: int, **settings: Any) -> Any:
    return bench.trained(n_epochs, network=bench.linear(cls=bench.tested.ByHand), **settings)


@check("gradients", "own_closure")
def calls_the_closure_of_the_network(bench: Bench) -> None:
    """A closure written by hand trains as by hand, and its values enter the history."""
    trainer = _trained_by_hand(bench, 2)
    bench.assert_history(trainer, "mse", bench.assert_descended(trainer, bench.batches(), 2))


@check("gradients", "own_closure")
def counts_for_closures(bench: Bench) -> None:
    """A closure that names them is given the step of the epoch, the step of the run and the fold."""
    trainer = _trained_by_hand(bench, 2, fold=2)
    for name, expected in (("iter_num", [0.5, 0.5]), ("global_iter_num", [0.5, 2.5]), ("fold", [2, 2])):
        bench.assert_history(trainer, name, expected)


@check("gradients", "own_closure")
def hands_extra_to_the_closure(bench: Bench) -> None:
    """What stands under ``extra`` reaches a closure that takes it, and no other."""
    trainer = _trained_by_hand(bench, 1, extra={"factor": 2.5, "unused": "nobody takes it"})
    bench.assert_history(trainer, "scaled", [2.5 * trainer.state.history[0]["mse"]])


@check("gradients", "gan")
def trains_with_two_optimizers(bench: Bench) -> None:
    """A GAN updates each of its networks with its own loss and its own optimizer."""
    rng = np.random.default_rng(4)
    arrays = {name: rng.normal(loc, size=(8, 2)) for name, loc in (("data", 0.0), ("real", 1.0))}
    network = bench.tested.Gan()
    layers = bench.layers(network, "gen", "discr")
    settings = {**bench.tested.sgd(0.02, 0.5), **bench.tested.gan_optimizers(), "losses": {}}
    trainer = bench.trained(2, bench.manager(arrays=arrays), network=network, **settings)
    assert set(trainer.optimizers) == {"gen", "discr"}, f"the optimizers are called {sorted(trainer.optimizers)}"
    optimizers = {name: Sgd(0.02, 0.5) for name in layers}
    values = [_gan_step(**layers, optimizers=optimizers, batch=batch) for batch in 2 * split(arrays, 4)]
    bench.assert_layer(network, layers["gen"], "the generator", "gen")
    bench.assert_layer(network, layers["discr"], "the discriminator", "discr")
    for name in layers:
        bench.assert_history(trainer, name, np.reshape([value[name] for value in values], (2, 2)).mean(axis=1))


def _gan_step(gen: Dense, discr: Dense, optimizers: dict[str, Sgd], batch: Batch) -> dict[str, float]:
    data, real, fake = batch["data"], batch["real"], gen(batch["data"])
    wanted = ((real, 1.0), (fake, 0.0))
    values = {"discr": sum(mse(discr(x), np.full((len(x), 1), target)) for x, target in wanted)}
    slopes = [discr.backward(x, mse_slope(discr(x), np.full((len(x), 1), target))) for x, target in wanted]
    optimizers["discr"].update(discr.parameters, [left + right for left, right in zip(*slopes, strict=True)])
    judged = discr(fake)
    values["gen"] = mse(judged, np.ones_like(judged))
    slope = mse_slope(judged, np.ones_like(judged)) @ discr.weight.T
    optimizers["gen"].update(gen.parameters, gen.backward(data, slope))
    return values


# ------------------------------------------------------------------ several inputs and outputs


def _pairs(bench: Bench) -> dict[str, np.ndarray]:
    left, right = bench.arrays(seed=1), bench.arrays(seed=2)
    return {
        "one": left["data"],
        "two": right["data"],
        "target": left["label"] + right["label"],
        "aside": left["label"],
    }


@check("gradients")
def reads_entries_of_other_names(bench: Bench) -> None:
    """``key_mapping``, ``loss_keys`` and ``metric_keys`` say what the network, a loss and a training metric read."""
    plain = bench.arrays()
    arrays = {"image": plain["data"], "goal": plain["label"], "data": -plain["data"], "label": plain["label"] + 3}
    trainer = bench.trained(
        data=bench.manager(arrays=arrays),
        losses={"fit": bench.tested.mse},
        train_metrics={"error": bench.tested.mse},
        key_mapping={"x": "image"},
        loss_keys={"fit": ("pred", "goal")},
        metric_keys={"error": ("goal", "pred")},
    )
    losses = bench.assert_descended(trainer, bench.batches())
    for name in ("fit", "error"):
        bench.assert_history(trainer, name, losses)


@check("gradients", "two")
def maps_several_inputs_and_outputs(bench: Bench) -> None:
    """``key_mapping`` names the entries of several arguments, ``loss_keys`` what each of several losses reads."""
    arrays = _pairs(bench)
    network = bench.tested.Two()
    made = bench.layers(network, "left", "right")
    trainer = bench.trained(
        2,
        bench.manager(arrays=arrays),
        network=network,
        key_mapping={"left": "one", "right": "two"},
        losses={"sum": bench.tested.mse, "aside": bench.tested.mse},
        loss_keys={"sum": ("pred", "target"), "aside": ("other", "aside")},
        **bench.tested.sgd(0.05),
    )
    _descend_in_two(made["left"], made["right"], arrays, has_aside=True)
    bench.assert_layer(network, made["left"], "the left layer", "left")
    bench.assert_layer(network, made["right"], "the right layer", "right")
    assert {"sum", "aside"} <= trainer.state.history[0].keys()


@check("gradients", "nested")
def nests_inputs_and_outputs(bench: Bench) -> None:
    """Entries of a batch and outputs may be nested dicts; predictions come back nested as they were."""
    flat = _pairs(bench)
    batches = [
        {"label": batch["target"], "pair": {"left": batch["one"], "right": batch["two"]}}  # an array says how many
        for batch in split(flat, 4)
    ]
    network = bench.tested.Nested()
    made = bench.layers(network, "left", "right")
    trainer = bench.trained(2, batches, network=network, key_mapping={"pair": "pair"}, **bench.tested.sgd(0.05))
    _descend_in_two(made["left"], made["right"], flat, has_aside=False)
    bench.assert_layer(network, made["left"], "the left layer", "left")
    found = trainer.predict(batches[0])
    assert found.keys() == {"pred", "parts"}, f"the predictions are {sorted(found)}"
    assert found["parts"].keys() == {"left", "right"}, f"the nested predictions are {sorted(found['parts'])}"
    bench.assert_close(found["parts"]["right"], made["right"](flat["two"][:4]), "a nested prediction")


def _descend_in_two(left: Dense, right: Dense, arrays: dict[str, np.ndarray], has_aside: bool) -> None:
    sgd = Sgd(0.05)
    for batch in 2 * split(arrays, 4):
        one, two = batch["one"], batch["two"]
        slope = mse_slope(left(one) + right(two), batch["target"])
        aside = mse_slope(left(one), batch["aside"]) if has_aside else 0 * slope
        gradients = [*left.backward(one, slope + aside), *right.backward(two, slope)]
        sgd.update([*left.parameters, *right.parameters], gradients)


# ------------------------------------------------------------------ hooks inside the step


def _hooked(bench: Bench, **hooks: Callable[[Step], None]) -> Any:
    """A trainer after one epoch with hooks by event."""
    trainer = bench.trainer()
    trainer.hooks = StepHooks(**{event: (hook,) for event, hook in hooks.items()})
    trainer.train(1, bench.manager())
    return trainer


def _traced_or_not(bench: Bench, event: str, hook: Any) -> Iterator[Any]:
    """Trainers with one hook that is not traceable, and then is."""
    for hook.traceable in (False, True):
        yield _hooked(bench, **{event: hook})


@check("gradients", "hooks")
def hooks_change_the_batch(bench: Bench) -> None:
    """A hook on the batch changes what the network and the losses see."""

    def double(step: Step) -> None:
        step.batch = {**step.batch, "data": step.batch["data"] * 2, "label": step.batch["label"] + 1}

    changed = [{"data": 2 * batch["data"], "label": batch["label"] + 1} for batch in bench.batches()]
    for trainer in _traced_or_not(bench, "sample", double):
        bench.assert_history(trainer, "mse", bench.assert_descended(trainer, changed))


@check("gradients", "hooks", "loss_hooks")
def hooks_change_the_predictions(bench: Bench) -> None:
    """A hook on the predictions changes what the losses differentiate."""

    def double(step: Step) -> None:
        step.predictions = {**step.predictions, "pred": step.predictions["pred"] * 2}

    def slope(prediction: np.ndarray, target: np.ndarray) -> np.ndarray:
        return 2 * mse_slope(2 * prediction, target)

    for trainer in _traced_or_not(bench, "forward", double):
        bench.assert_descended(trainer, bench.batches(), slope=slope)


@check("gradients", "hooks", "loss_hooks")
def hooks_change_the_losses(bench: Bench) -> None:
    """A hook on the losses changes what is differentiated and recorded."""

    def triple(step: Step) -> None:
        step.losses = {name: value * 3 for name, value in step.losses.items()}

    def slope(prediction: np.ndarray, target: np.ndarray) -> np.ndarray:
        return 3 * mse_slope(prediction, target)

    for trainer in _traced_or_not(bench, "criterion", triple):
        (loss,) = bench.assert_descended(trainer, bench.batches(), slope=slope)
        bench.assert_history(trainer, "mse", [3 * loss])


@check("gradients", "hooks")
def hooks_see_every_step(bench: Bench) -> None:
    """Hooks that are not traceable run as plain Python in every step: batch, predictions, losses, gradients."""
    seen: list[tuple[str, list[int]]] = []
    at_gradients: list[tuple[np.ndarray, float]] = []

    def note(event: str, step: Step) -> None:
        numbers = bench.backend.arrays.to_numpy(step.batch["number"])
        seen.append((event, np.asarray(numbers).astype(int).tolist()))
        if event == "backward":
            losses = bench.backend.arrays.read_scalars([step.losses["mse"]])
            at_gradients.append((bench.tested.read(step.network)[0], float(losses[0])))

    events = ("sample", "forward", "criterion", "backward")
    _hooked(bench, **{event: functools.partial(note, event) for event in events})
    expected = [(event, rows) for rows in ([0, 1, 2, 3], [4, 5, 6, 7]) for event in events]
    assert seen == expected, f"the hooks saw {seen}"
    dense = bench.dense()
    bench.assert_close(at_gradients[0][0], dense.weight, "the weight before the first update")
    losses, _ = descend(dense, bench.batches()[:1])
    bench.assert_close(at_gradients[0][1], losses[0], "the loss that the hook sees")
    bench.assert_close(at_gradients[1][0], dense.weight, "the weight before the second update")


# ------------------------------------------------------------------ compilation


@check("gradients")
def runs_as_plain_python(bench: Bench) -> None:
    """``compiled=False`` computes the same numbers, up to rounding, as the default."""
    plain = bench.trained(2, bench.manager(10), compiled=False, train_metrics={"again": bench.tested.mse})
    for trainer in (plain, bench.trained(2, bench.manager(10))):
        bench.assert_history(trainer, "mse", bench.assert_descended(trainer, bench.batches(10), 2))


@check("gradients", "compiled")
def compiles(bench: Bench) -> None:
    """``compiled=True`` computes the same numbers up to rounding, with a shorter last batch too."""
    bench.assert_descended(bench.trained(1, bench.manager(10), compiled=True), bench.batches(10))
