"""The step: what a closure is given, what hooks inside it change, several networks in one."""

from collections.abc import Callable
from typing import Any

import numpy as np

from delira.contract import Step, StepHooks
from delira.contract.kinds import Data
from delira.testing.spec.bench import Bench
from delira.testing.spec.check import check
from delira.testing.spec.reference import Dense, Sgd, descend, mse, mse_slope, weighted


@check("gradients", "own_closure")
def calls_the_closure_of_the_network(bench: Bench) -> None:
    """A closure written by hand trains as by hand, and its values enter the history."""
    trainer = bench.trainer(bench.by_hand())
    network = trainer.train(2, bench.manager(8))
    dense, batches = bench.dense(), bench.batches(8)
    losses, _ = descend(dense, 2 * batches)
    bench.assert_layer(network, dense)
    bench.assert_history(trainer, "mse", [weighted(losses[:2], batches), weighted(losses[2:], batches)])


@check("gradients", "own_closure")
def counts_for_closures(bench: Bench) -> None:
    """A closure that names them is given the step of the epoch, the step of the run and the fold."""
    trainer = bench.trainer(bench.by_hand(), fold=2)
    trainer.train(2, bench.manager(8))
    bench.assert_history(trainer, "iter_num", [0.5, 0.5])
    bench.assert_history(trainer, "global_iter_num", [0.5, 2.5])
    bench.assert_history(trainer, "fold", [2, 2])


@check("gradients", "own_closure")
def hands_extra_to_the_closure(bench: Bench) -> None:
    """What stands under ``extra`` reaches a closure that takes it, and no other."""
    trainer = bench.trainer(bench.by_hand(), extra={"factor": 2.5, "unused": "nobody takes it"})
    trainer.train(1, bench.manager(8))
    record = trainer.state.history[0]
    bench.assert_close(record["scaled"], 2.5 * record["mse"], "the loss times extra's factor")


@check("gradients", "gan")
def trains_with_two_optimizers(bench: Bench) -> None:
    """A GAN updates each of its networks with its own loss and its own optimizer."""
    rng = np.random.default_rng(4)
    arrays = {name: rng.normal(loc, size=(8, 2)) for name, loc in (("data", 0.0), ("real", 1.0))}
    network = bench.tested.Gan()
    made = bench.layers(network, "gen", "discr")
    gen, discr = made["gen"], made["discr"]
    settings = {**bench.tested.sgd(0.02, 0.5), **bench.tested.gan_optimizers(), "losses": {}}
    trainer = bench.trainer(network, **settings)
    assert set(trainer.optimizers) == {"gen", "discr"}, f"the optimizers are called {sorted(trainer.optimizers)}"
    network = trainer.train(2, bench.manager(batch_size=4, arrays=arrays))
    optimizers = {"gen": Sgd(0.02, 0.5), "discr": Sgd(0.02, 0.5)}
    values = []
    for start in (0, 4, 0, 4):
        data, real = (arrays[name][start : start + 4] for name in ("data", "real"))
        values.append(_gan_step(gen, discr, optimizers, data, real))
    bench.assert_layer(network, gen, "the generator", "gen")
    bench.assert_layer(network, discr, "the discriminator", "discr")
    for name in ("gen", "discr"):
        found = [value[name] for value in values]
        bench.assert_history(trainer, name, [sum(found[:2]) / 2, sum(found[2:]) / 2])


def _gan_step(gen: Dense, discr: Dense, optimizers: dict[str, Sgd], data: Data, real: Any) -> dict[str, float]:
    fake = gen(data)
    on_real, on_fake = discr(real), discr(fake)
    values = {"discr": mse(on_real, np.ones_like(on_real)) + mse(on_fake, np.zeros_like(on_fake))}
    slopes = mse_slope(on_real, np.ones_like(on_real)), mse_slope(on_fake, np.zeros_like(on_fake))
    gradients = [
        left + right
        for left, right in zip(discr.backward(real, slopes[0]), discr.backward(fake, slopes[1]), strict=True)
    ]
    optimizers["discr"].update(discr.parameters, gradients)
    on_fake = discr(fake)
    values["gen"] = mse(on_fake, np.ones_like(on_fake))
    slope = mse_slope(on_fake, np.ones_like(on_fake)) @ discr.weight.T
    optimizers["gen"].update(gen.parameters, gen.backward(data, slope))
    return values


# ------------------------------------------------------------------ several inputs and outputs


def _pairs(bench: Bench) -> dict[str, np.ndarray]:
    left, right = bench.arrays(8, seed=1), bench.arrays(8, seed=2)
    return {
        "one": left["data"],
        "two": right["data"],
        "target": left["label"] + right["label"],
        "aside": left["label"],
    }


@check("gradients")
def reads_entries_of_other_names(bench: Bench) -> None:
    """``key_mapping``, ``loss_keys`` and ``metric_keys`` say what the network, a loss and a training metric read."""
    plain = bench.arrays(8)
    arrays = {"image": plain["data"], "goal": plain["label"], "data": -plain["data"], "label": plain["label"] + 3}
    losses = {"fit": bench.tested.mse}
    keys: dict[str, Any] = {
        "key_mapping": {"x": "image"},
        "loss_keys": {"fit": ("pred", "goal")},
        "metric_keys": {"error": ("goal", "pred")},
    }
    trainer = bench.trainer(losses=losses, train_metrics={"error": bench.tested.mse}, **keys)
    network = trainer.train(1, bench.manager(arrays=arrays))
    dense, batches = bench.dense(), bench.batches(8)
    expected, _ = descend(dense, batches)
    bench.assert_layer(network, dense)
    for name in ("fit", "error"):
        bench.assert_history(trainer, name, [weighted(expected, batches)])


@check("gradients", "two")
def maps_several_inputs_and_outputs(bench: Bench) -> None:
    """``key_mapping`` names the entries of several arguments, ``loss_keys`` what each of several losses reads."""
    arrays = _pairs(bench)
    network = bench.tested.Two()
    made = bench.layers(network, "left", "right")
    trainer = bench.trainer(
        network,
        key_mapping={"left": "one", "right": "two"},
        losses={"sum": bench.tested.mse, "aside": bench.tested.mse},
        loss_keys={"sum": ("pred", "target"), "aside": ("other", "aside")},
        **bench.tested.sgd(0.05),
    )
    network = trainer.train(2, bench.manager(batch_size=4, arrays=arrays))
    _descend_in_two(made["left"], made["right"], arrays, has_aside=True)
    bench.assert_layer(network, made["left"], "the left layer", "left")
    bench.assert_layer(network, made["right"], "the right layer", "right")
    assert {"sum", "aside"} <= trainer.state.history[0].keys()


@check("gradients", "nested")
def nests_inputs_and_outputs(bench: Bench) -> None:
    """Entries of a batch and outputs may be nested dicts; predictions come back nested as they were."""
    flat = _pairs(bench)
    batches = [
        {"pair": {"left": flat["one"][rows], "right": flat["two"][rows]}, "label": flat["target"][rows]}
        for rows in (slice(0, 4), slice(4, 8))
    ]
    network = bench.tested.Nested()
    made = bench.layers(network, "left", "right")
    trainer = bench.trainer(network, key_mapping={"pair": "pair"}, **bench.tested.sgd(0.05))
    flipped = [{"label": batch["label"], "pair": batch["pair"]} for batch in batches]  # an array says how many
    network = trainer.train(2, flipped)
    _descend_in_two(made["left"], made["right"], flat, has_aside=False)
    bench.assert_layer(network, made["left"], "the left layer", "left")
    found = trainer.predict(flipped[0])
    assert found.keys() == {"pred", "parts"}, f"the predictions are {sorted(found)}"
    assert found["parts"].keys() == {"left", "right"}, f"the nested predictions are {sorted(found['parts'])}"
    bench.assert_close(found["parts"]["right"], made["right"](flat["two"][:4]), "a nested prediction")


def _descend_in_two(left: Dense, right: Dense, arrays: dict[str, np.ndarray], has_aside: bool) -> None:
    sgd = Sgd(0.05)
    for rows in 2 * (slice(0, 4), slice(4, 8)):
        one, two = arrays["one"][rows], arrays["two"][rows]
        slope = mse_slope(left(one) + right(two), arrays["target"][rows])
        aside = mse_slope(left(one), arrays["aside"][rows]) if has_aside else 0 * slope
        gradients = [*left.backward(one, slope + aside), *right.backward(two, slope)]
        sgd.update([*left.parameters, *right.parameters], gradients)


# ------------------------------------------------------------------ hooks inside the step


def _hooked(bench: Bench, moment: str, hook: Callable[[Step], None], traceable: bool) -> Any:
    """A trainer after one epoch with one hook."""
    if traceable:
        hook.traceable = True  # type: ignore[attr-defined]
    trainer = bench.trainer()
    trainer.hooks = StepHooks(**{moment: (hook,)})
    trainer.train(1, bench.manager(8))
    return trainer


@check("gradients", "hooks")
def hooks_change_the_batch(bench: Bench) -> None:
    """A hook on the batch changes what the network and the losses see."""

    def double(step: Step) -> None:
        step.batch = {**step.batch, "data": step.batch["data"] * 2, "label": step.batch["label"] + 1}

    dense = bench.dense()
    changed = [{"data": 2 * batch["data"], "label": batch["label"] + 1} for batch in bench.batches(8)]
    losses, _ = descend(dense, changed)
    for traceable in (False, True):
        trainer = _hooked(bench, "sample", double, traceable)
        bench.assert_layer(trainer.module, dense)
        bench.assert_history(trainer, "mse", [weighted(losses, changed)])


@check("gradients", "hooks", "loss_hooks")
def hooks_change_the_predictions(bench: Bench) -> None:
    """A hook on the predictions changes what the losses differentiate."""

    def double(step: Step) -> None:
        step.predictions = {**step.predictions, "pred": step.predictions["pred"] * 2}

    dense = bench.dense()
    descend(dense, bench.batches(8), slope=lambda pred, target: 2 * mse_slope(2 * pred, target))
    for traceable in (False, True):
        bench.assert_layer(_hooked(bench, "forward", double, traceable).module, dense)


@check("gradients", "hooks", "loss_hooks")
def hooks_change_the_losses(bench: Bench) -> None:
    """A hook on the losses changes what is differentiated and recorded."""

    def triple(step: Step) -> None:
        step.losses = {name: value * 3 for name, value in step.losses.items()}

    dense, batches = bench.dense(), bench.batches(8)
    losses, _ = descend(dense, batches, slope=lambda pred, target: 3 * mse_slope(pred, target))
    for traceable in (False, True):
        trainer = _hooked(bench, "criterion", triple, traceable)
        bench.assert_layer(trainer.module, dense)
        bench.assert_history(trainer, "mse", [3 * weighted(losses, batches)])


@check("gradients", "hooks")
def hooks_see_every_step(bench: Bench) -> None:
    """Hooks that are not traceable run as plain Python in every step: batch, predictions, losses, gradients."""
    seen: list[tuple[str, Any]] = []

    def note(moment: str) -> Callable[[Step], None]:
        def hook(step: Step) -> None:
            numbers = bench.backend.arrays.to_numpy(step.batch["number"])
            seen.append((moment, np.asarray(numbers).astype(int).tolist()))
            if moment == "backward":
                weight, _ = bench.tested.read(step.network)
                losses = bench.backend.arrays.read_scalars([step.losses["mse"]])
                seen.append(("values", [weight, float(losses[0])]))

        return hook

    trainer = bench.trainer()
    moments = ("sample", "forward", "criterion", "backward")
    trainer.hooks = StepHooks(**{moment: (note(moment),) for moment in moments})
    trainer.train(1, bench.manager(8))
    expected = [(moment, rows) for rows in ([0, 1, 2, 3], [4, 5, 6, 7]) for moment in moments]
    assert [one for one in seen if one[0] != "values"] == expected, f"the hooks saw {seen}"
    at_gradients = [value for moment, value in seen if moment == "values"]
    dense = bench.dense()
    bench.assert_close(at_gradients[0][0], dense.weight, "the weight before the first update")
    losses, _ = descend(dense, bench.batches(8)[:1])
    bench.assert_close(at_gradients[0][1], losses[0], "the loss that the hook sees")
    bench.assert_close(at_gradients[1][0], dense.weight, "the weight before the second update")


# ------------------------------------------------------------------ compilation


@check("gradients")
def runs_as_plain_python(bench: Bench) -> None:
    """``compiled=False`` computes the same numbers, up to rounding, as the default."""
    trainers = [bench.trainer(compiled=False, train_metrics={"again": bench.tested.mse}), bench.trainer()]
    for trainer in trainers:
        trainer.train(2, bench.manager(10))
    dense, batches = bench.dense(), bench.batches(10)
    losses, _ = descend(dense, 2 * batches)
    for trainer in trainers:
        bench.assert_layer(trainer.module, dense)
        bench.assert_history(trainer, "mse", [weighted(losses[:3], batches), weighted(losses[3:], batches)])


@check("gradients", "compiled")
def compiles(bench: Bench) -> None:
    """``compiled=True`` computes the same numbers up to rounding, with a shorter last batch too."""
    trainer = bench.trainer(compiled=True)
    network = trainer.train(1, bench.manager(10))
    dense = bench.dense()
    descend(dense, bench.batches(10))
    bench.assert_layer(network, dense)
