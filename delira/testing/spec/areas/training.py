"""What a training learns: descents by hand, steps and their hooks, and updates."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from delira.contract import Step, StepHooks
from delira.testing.spec.bench import (
    Adam,
    Batch,
    Bench,
    Dense,
    Gradients,
    Sgd,
    caught,
    descend,
    mse,
    mse_slope,
    rmse,
    split,
    weighted,
)
from delira.testing.spec.check import check

# ------------------------------------------------------------------ learning
# Training is the descent it says it is, and its numbers are exact.


@check("learning")
def learns(bench: Bench) -> None:
    """Training makes predictions better than the mean of the labels."""
    data = bench.manager(20)
    trainer = bench.trained(8, data, data, val_metrics={"rmse": rmse})
    trivial = float(np.std(data.dataset.data["label"]))
    found = trainer.state.history[-1]["val_rmse"]
    assert found < 0.5 * trivial, f"the error is {found:.3g} after 8 epochs, that of the mean {trivial:.3g}"


@check("learning", "gradients")
def lowers_the_loss(bench: Bench) -> None:
    """Training lowers the loss."""
    losses = [record["mse"] for record in bench.trained(6, bench.manager(20)).state.history]
    assert losses[-1] < 0.2 * losses[0], f"the losses of the epochs are {losses}"


@check("learning", "gradients")
def is_gradient_descent(bench: Bench) -> None:
    """Without momentum, three epochs of batches of 4, 4 and 2 samples are gradient descent by hand."""
    trainer = bench.trained(3, bench.manager(10), **bench.tested.sgd(0.1))
    bench.assert_descended(trainer, bench.batches(10), 3, Sgd(0.1))


@check("learning", "gradients")
def has_momentum(bench: Bench) -> None:
    """With momentum, the velocity lasts over steps and epochs as by hand."""
    trainer = bench.trained(3, bench.manager(10), **bench.tested.sgd(0.05, 0.9))
    bench.assert_descended(trainer, bench.batches(10), 3, Sgd(0.05, 0.9))


@check("learning", "gradients", "adam")
def is_adam(bench: Bench) -> None:
    """Adam is Adam by hand, its bias corrections included."""
    bench.assert_descended(bench.trained(3, **bench.tested.adam(0.05)), bench.batches(), 3, Adam(0.05))


@check("learning", "gradients", "several_outputs")
def learns_several_outputs(bench: Bench) -> None:
    """The loss is the mean over samples and outputs."""
    trainer = bench.trained(2, bench.manager(n_outputs=2), network=bench.linear(3, 2))
    bench.assert_descended(trainer, bench.batches(n_outputs=2), 2)


@check("learning", "gradients", "absolute")
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


@check("learning", "gradients", "several_outputs", "cross_entropy")
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


@check("learning", "gradients")
def weights_losses_by_samples(bench: Bench) -> None:
    """The loss of an epoch counts every sample once, though its last batch is shorter."""
    trainer = bench.trained(2, bench.manager(9))
    bench.assert_history(trainer, "mse", bench.assert_descended(trainer, bench.batches(9), 2))


@check("learning", "gradients")
def weights_training_metrics_by_samples(bench: Bench) -> None:
    """Training metrics are computed in the step, on its predictions, and averaged by samples."""
    trainer = bench.trained(data=bench.manager(10), train_metrics={"again": bench.tested.mse})
    bench.assert_history(trainer, "again", bench.assert_descended(trainer, bench.batches(10)))


def _validated(bench: Bench, **settings: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """A trainer after one epoch, and what it was validated on in batches of 3, 3 and 1."""
    arrays = bench.arrays(7, seed=1)
    return bench.trained(1, None, bench.manager(batch_size=3, arrays=arrays), **settings), arrays


@check("learning", "gradients")
def validates_losses(bench: Bench) -> None:
    """Validation losses are those of the network as it is after the epoch, weighted by samples."""
    trainer, arrays = _validated(bench)
    weight, bias = bench.tested.read(trainer.module)
    bench.assert_history(trainer, "val_mse", [mse(arrays["data"] @ weight + bias, arrays["label"])])


@check("learning")
def validates_exactly(bench: Bench) -> None:
    """Validation metrics are those of all samples at once, and no mean of batches."""
    trainer, arrays = _validated(bench, val_metrics={"rmse": rmse})
    pred = trainer.predict(arrays)["pred"]
    bench.assert_history(trainer, "val_rmse", [rmse(arrays["label"], pred)])
    if bench.is_differentiable:
        weight, bias = bench.tested.read(trainer.module)
        bench.assert_close(pred, arrays["data"] @ weight + bias, "the prediction")


@check("learning")
def averages_metrics_of_samples(bench: Bench) -> None:
    """A metric of single samples has one value for each; the history has their mean."""

    def distance(y_true: np.ndarray, y_pred: np.ndarray) -> float:
        return float(np.abs(y_true - y_pred).max())

    distance.over = "sample"  # type: ignore[attr-defined]
    trainer, arrays = _validated(bench, val_metrics={"distance": distance})
    pred = trainer.predict(arrays)["pred"]
    bench.assert_history(trainer, "val_distance", [np.abs(arrays["label"] - pred).mean()])


@check("learning", "gradients")
def measures_training_exactly(bench: Bench) -> None:
    """Metrics over a training epoch are those of the predictions of its steps, each before its update."""
    trainer = bench.trained(data=bench.manager(10), metrics={"rmse": rmse})
    _, predictions = descend(bench.dense(), bench.batches(10))
    bench.assert_history(trainer, "rmse", [rmse(bench.arrays(10)["label"], np.concatenate(predictions))])


@check("learning", "gradients")
def reduces_as_told(bench: Bench) -> None:
    """``reduce_mode`` makes one number of the steps of an epoch: their sum, the first or the last."""
    trainer, data = bench.trainer(), bench.manager()
    losses, _ = descend(bench.dense(), 3 * bench.batches())
    expected = {"sum": losses[0] + losses[1], "first_only": losses[2], "last_only": losses[5]}
    for epoch, mode in enumerate(expected, 1):
        trainer.train(epoch, data, reduce_mode=mode)
        bench.assert_close(trainer.state.history[-1]["mse"], expected[mode], f"the loss by reduce_mode={mode!r}")


@check("learning")
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


# ------------------------------------------------------------------ steps
# The step: what a closure is given, what hooks inside it change, several networks in one.


def _trained_by_hand(bench: Bench, n_epochs: int, **settings: Any) -> Any:
    return bench.trained(n_epochs, network=bench.linear(cls=bench.tested.ByHand), **settings)


@check("steps", "gradients", "own_closure")
def calls_the_closure_of_the_network(bench: Bench) -> None:
    """A closure written by hand trains as by hand, and its values enter the history."""
    trainer = _trained_by_hand(bench, 2)
    bench.assert_history(trainer, "mse", bench.assert_descended(trainer, bench.batches(), 2))


@check("steps", "gradients", "own_closure")
def counts_for_closures(bench: Bench) -> None:
    """A closure that names them is given the step of the epoch, the step of the run and the fold."""
    trainer = _trained_by_hand(bench, 2, fold=2)
    for name, expected in (("iter_num", [0.5, 0.5]), ("global_iter_num", [0.5, 2.5]), ("fold", [2, 2])):
        bench.assert_history(trainer, name, expected)


@check("steps", "gradients", "own_closure")
def hands_extra_to_the_closure(bench: Bench) -> None:
    """What stands under ``extra`` reaches a closure that takes it, and no other."""
    trainer = _trained_by_hand(bench, 1, extra={"factor": 2.5, "unused": "nobody takes it"})
    bench.assert_history(trainer, "scaled", [2.5 * trainer.state.history[0]["mse"]])


@check("steps", "gradients", "gan")
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


@check("steps", "gradients")
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


@check("steps", "gradients", "two")
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


@check("steps", "gradients", "nested")
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


@check("steps", "gradients", "hooks")
def hooks_change_the_batch(bench: Bench) -> None:
    """A hook on the batch changes what the network and the losses see."""

    def double(step: Step) -> None:
        step.batch = {**step.batch, "data": step.batch["data"] * 2, "label": step.batch["label"] + 1}

    changed = [{"data": 2 * batch["data"], "label": batch["label"] + 1} for batch in bench.batches()]
    for trainer in _traced_or_not(bench, "sample", double):
        bench.assert_history(trainer, "mse", bench.assert_descended(trainer, changed))


@check("steps", "gradients", "hooks", "loss_hooks")
def hooks_change_the_predictions(bench: Bench) -> None:
    """A hook on the predictions changes what the losses differentiate."""

    def double(step: Step) -> None:
        step.predictions = {**step.predictions, "pred": step.predictions["pred"] * 2}

    def slope(prediction: np.ndarray, target: np.ndarray) -> np.ndarray:
        return 2 * mse_slope(2 * prediction, target)

    for trainer in _traced_or_not(bench, "forward", double):
        bench.assert_descended(trainer, bench.batches(), slope=slope)


@check("steps", "gradients", "hooks", "loss_hooks")
def hooks_change_the_losses(bench: Bench) -> None:
    """A hook on the losses changes what is differentiated and recorded."""

    def triple(step: Step) -> None:
        step.losses = {name: value * 3 for name, value in step.losses.items()}

    def slope(prediction: np.ndarray, target: np.ndarray) -> np.ndarray:
        return 3 * mse_slope(prediction, target)

    for trainer in _traced_or_not(bench, "criterion", triple):
        (loss,) = bench.assert_descended(trainer, bench.batches(), slope=slope)
        bench.assert_history(trainer, "mse", [3 * loss])


@check("steps", "gradients", "hooks")
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


@check("steps", "gradients")
def runs_as_plain_python(bench: Bench) -> None:
    """``compiled=False`` computes the same numbers, up to rounding, as the default."""
    plain = bench.trained(2, bench.manager(10), compiled=False, train_metrics={"again": bench.tested.mse})
    for trainer in (plain, bench.trained(2, bench.manager(10))):
        bench.assert_history(trainer, "mse", bench.assert_descended(trainer, bench.batches(10), 2))


@check("steps", "gradients", "compiled")
def compiles(bench: Bench) -> None:
    """``compiled=True`` computes the same numbers up to rounding, with a shorter last batch too."""
    bench.assert_descended(bench.trained(1, bench.manager(10), compiled=True), bench.batches(10))


# ------------------------------------------------------------------ updates
# From gradients to updates: accumulation, clipping, parts of batches, schedules, freezing.


class Unsized:
    """Batches whose number is not known before they end."""

    def __init__(self, batches: list[Batch]):
        self._batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._batches)


def _accumulated(bench: Bench, data: object, steps: int, groups: list[Batch]) -> None:
    """Train with accumulation; the weights must be those of a descent on the groups."""
    bench.assert_descended(bench.trained(2, data, gradient_accumulation_steps=steps), groups, 2)


@check("updates", "gradients", "accumulation")
def accumulates(bench: Bench) -> None:
    """Gradients accumulated over batches make the update of one large batch."""
    _accumulated(bench, bench.manager(8, 4), 2, bench.batches(8, 8))


@check("updates", "gradients", "accumulation")
def accumulates_by_samples(bench: Bench) -> None:
    """Accumulated batches count by their samples: 4, 4 and 1 make the update of 9."""
    _accumulated(bench, bench.manager(9, 4), 3, bench.batches(9, 9))


@check("updates", "gradients", "accumulation")
def accumulates_to_the_end(bench: Bench) -> None:
    """A group that the end of the epoch breaks off makes an update of its own."""
    _accumulated(bench, bench.manager(10, 4), 2, bench.batches(10, 8))


@check("updates", "gradients", "accumulation")
def accumulates_without_a_length(bench: Bench) -> None:
    """A group that the end of the epoch breaks off makes an update also if the number of batches is not known."""
    _accumulated(bench, Unsized(bench.batches(12)), 2, bench.batches(12, 8))


@check("updates", "gradients", "accumulation", "clipping")
def clips_what_was_accumulated(bench: Bench) -> None:
    """Clipping acts on the accumulated gradient, once for each update."""
    trainer = bench.trained(2, gradient_accumulation_steps=2, gradient_clip_norm=0.5)
    bench.assert_descended(trainer, bench.batches(8, 8), 2, change=_clip_norm)


def _clip_norm(gradients: Gradients) -> Gradients:
    norm = np.sqrt(sum(float(np.sum(gradient**2)) for gradient in gradients))
    return [gradient * min(1.0, 0.5 / norm) for gradient in gradients]


@check("updates", "gradients", "clipping")
def clips_the_norm(bench: Bench) -> None:
    """``gradient_clip_norm`` limits the 2-norm of all gradients together."""
    bench.assert_descended(bench.trained(2, gradient_clip_norm=0.5), bench.batches(), 2, change=_clip_norm)


@check("updates", "gradients", "clipping")
def clips_values(bench: Bench) -> None:
    """``gradient_clip_value`` limits every entry of the gradients."""

    def clip(gradients: Gradients) -> Gradients:
        return [np.clip(gradient, -0.2, 0.2) for gradient in gradients]

    bench.assert_descended(bench.trained(2, gradient_clip_value=0.2), bench.batches(), 2, change=clip)


@check("updates", "gradients", "micro_batches")
def computes_in_parts(bench: Bench) -> None:
    """``micro_batches`` computes a batch in parts, with the update and the values of the whole."""
    trainer = bench.trained(2, micro_batches=2, train_metrics={"again": bench.tested.mse})
    losses = bench.assert_descended(trainer, bench.batches(), 2)
    for name in ("mse", "again"):
        bench.assert_history(trainer, name, losses)


@check("updates", "gradients", "micro_batches")
def computes_in_unequal_parts(bench: Bench) -> None:
    """Parts of a batch count by their samples: 5 samples in 2 parts make the update of 5."""
    bench.assert_descended(bench.trained(2, bench.manager(5, 5), micro_batches=2), bench.batches(5, 5), 2)


@check("updates", "gradients", "mixed_precision")
def computes_in_half_precision(bench: Bench) -> None:
    """``mixed_precision="bf16"`` computes in half precision, and keeps weights and losses in single precision."""
    trainer = bench.trainer(mixed_precision="bf16")
    before = _dtypes(bench, trainer.module)
    trainer.train(2, bench.manager())
    losses, _ = descend(bench.dense(), 2 * bench.batches())
    found = [values["mse"] for values in trainer.state.history]
    exact = weighted(losses, bench.batches())
    np.testing.assert_allclose(found, exact, rtol=0.05)
    assert not np.allclose(found, exact, rtol=1e-5), "the losses are those of single precision"
    assert _dtypes(bench, trainer.module) == before, "the weights have another dtype"


@check("updates", "gradients")
def follows_a_schedule(bench: Bench) -> None:
    """A learning rate that halves after every epoch is applied, and recorded as it was in the epoch."""
    trainer = bench.trained(3, **{**bench.tested.sgd(0.1), **bench.tested.halving()})
    bench.assert_rates(trainer, 0.1, 0.05, 0.025)


@check("updates", "gradients", "schedules")
def refuses_unknown_schedules(bench: Bench) -> None:
    """``lr_scheduler_cls`` that is no schedule is refused, before training."""
    caught((ValueError, TypeError), lambda: bench.trainer(lr_scheduler_cls=dict))


@check("updates", "gradients", "rollback")
def scales_rates(bench: Bench) -> None:
    """``scale_rates`` changes the learning rate of the steps that follow."""
    trainer = bench.trained(**bench.tested.sgd(0.1))
    trainer.scale_rates(0.5)
    trainer.train(2, bench.manager())
    bench.assert_rates(trainer, 0.1, 0.05)


@check("updates", "gradients", "freezing")
def leaves_frozen_weights_alone(bench: Bench) -> None:
    """A weight that is not among the learned ones keeps its bits while the others learn, until it is learned again."""
    trainer = bench.trainer()
    role, network = bench.backend.weights, trainer.module
    names = role.learned_names(network)
    frozen = min(names)
    role.set_learned_names(network, names - {frozen})
    assert role.learned_names(network) == names - {frozen}, f"{frozen} is learned though it was frozen"
    before = bench.weights(network)
    trainer.train(1, bench.manager())
    after = bench.weights(network)
    assert bench.is_same(before[frozen], after[frozen]), f"{frozen} was frozen and changed"
    for name in names - {frozen}:
        assert not bench.is_same(before[name], after[name]), f"{name} was not frozen and did not change"
    role.set_learned_names(network, names)
    trainer.train(2, bench.manager())
    assert not bench.is_same(after[frozen], bench.weights(network)[frozen]), f"{frozen} did not learn again"


def _dtypes(bench: Bench, network: object) -> dict[str, np.dtype]:
    return {name: array.dtype for name, array in bench.weights(network).items()}
