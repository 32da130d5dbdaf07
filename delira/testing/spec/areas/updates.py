"""From gradients to updates: accumulation, clipping, parts of batches, schedules, freezing."""

from collections.abc import Iterator

import numpy as np

from delira.testing.spec.bench import Bench, caught
from delira.testing.spec.check import check
from delira.testing.spec.reference import Batch, Gradients, descend, weighted


class Unsized:
    """Batches whose number is not known before they end."""

    def __init__(self, batches: list[Batch]):
        self._batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._batches)


def _accumulated(bench: Bench, data: object, steps: int, groups: list[Batch]) -> None:
    """Train with accumulation; the weights must be those of a descent on the groups."""
    bench.assert_descended(bench.trained(2, data, gradient_accumulation_steps=steps), groups, 2)


@check("gradients", "accumulation")
def accumulates(bench: Bench) -> None:
    """Gradients accumulated over batches make the update of one large batch."""
    _accumulated(bench, bench.manager(8, 4), 2, bench.batches(8, 8))


@check("gradients", "accumulation")
def accumulates_by_samples(bench: Bench) -> None:
    """Accumulated batches count by their samples: 4, 4 and 1 make the update of 9."""
    _accumulated(bench, bench.manager(9, 4), 3, bench.batches(9, 9))


@check("gradients", "accumulation")
def accumulates_to_the_end(bench: Bench) -> None:
    """A group that the end of the epoch breaks off makes an update of its own."""
    _accumulated(bench, bench.manager(10, 4), 2, bench.batches(10, 8))


@check("gradients", "accumulation")
def accumulates_without_a_length(bench: Bench) -> None:
    """The same where nobody knows how many batches there will be."""
    _accumulated(bench, Unsized(bench.batches(12)), 2, bench.batches(12, 8))


@check("gradients", "accumulation", "clipping")
def clips_what_was_accumulated(bench: Bench) -> None:
    """Clipping acts on the accumulated gradient, once for each update."""
    trainer = bench.trained(2, gradient_accumulation_steps=2, gradient_clip_norm=0.5)
    bench.assert_descended(trainer, bench.batches(8, 8), 2, change=_clip_norm)


def _clip_norm(gradients: Gradients) -> Gradients:
    norm = np.sqrt(sum(float(np.sum(gradient**2)) for gradient in gradients))
    return [gradient * min(1.0, 0.5 / norm) for gradient in gradients]


@check("gradients", "clipping")
def clips_the_norm(bench: Bench) -> None:
    """``gradient_clip_norm`` limits the 2-norm of all gradients together."""
    bench.assert_descended(bench.trained(2, gradient_clip_norm=0.5), bench.batches(), 2, change=_clip_norm)


@check("gradients", "clipping")
def clips_values(bench: Bench) -> None:
    """``gradient_clip_value`` limits every entry of the gradients."""

    def clip(gradients: Gradients) -> Gradients:
        return [np.clip(gradient, -0.2, 0.2) for gradient in gradients]

    bench.assert_descended(bench.trained(2, gradient_clip_value=0.2), bench.batches(), 2, change=clip)


@check("gradients", "micro_batches")
def computes_in_parts(bench: Bench) -> None:
    """``micro_batches`` computes a batch in parts, with the update and the values of the whole."""
    trainer = bench.trained(2, micro_batches=2, train_metrics={"again": bench.tested.mse})
    losses = bench.assert_descended(trainer, bench.batches(), 2)
    for name in ("mse", "again"):
        bench.assert_history(trainer, name, losses)


@check("gradients", "micro_batches")
def computes_in_unequal_parts(bench: Bench) -> None:
    """Parts of a batch count by their samples: 5 samples in 2 parts make the update of 5."""
    bench.assert_descended(bench.trained(2, bench.manager(5, 5), micro_batches=2), bench.batches(5, 5), 2)


@check("gradients", "mixed_precision")
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


@check("gradients")
def follows_a_schedule(bench: Bench) -> None:
    """A learning rate that halves after every epoch is applied, and recorded as it was in the epoch."""
    trainer = bench.trained(3, **{**bench.tested.sgd(0.1), **bench.tested.halving()})
    bench.assert_rates(trainer, 0.1, 0.05, 0.025)


@check("gradients", "schedules")
def refuses_unknown_schedules(bench: Bench) -> None:
    """``lr_scheduler_cls`` that is no schedule is refused, before training."""
    caught((ValueError, TypeError), lambda: bench.trainer(lr_scheduler_cls=dict))


@check("gradients", "rollback")
def scales_rates(bench: Bench) -> None:
    """``scale_rates`` changes the learning rate of the steps that follow."""
    trainer = bench.trained(**bench.tested.sgd(0.1))
    trainer.scale_rates(0.5)
    trainer.train(2, bench.manager())
    bench.assert_rates(trainer, 0.1, 0.05)


@check("gradients", "freezing")
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
