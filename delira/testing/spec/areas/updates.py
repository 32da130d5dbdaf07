"""From gradients to updates: accumulation, clipping, parts of batches, schedules, freezing."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from delira.testing.spec.bench import Bench, caught, split
from delira.testing.spec.check import check
from delira.testing.spec.reference import Batch, Gradients, Sgd, descend, weighted


class Unsized:
    """Batches whose number is not known before they end."""

    def __init__(self, batches: list[Batch]):
        self._batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._batches)


def _accumulated(bench: Bench, data: object, steps: int, *groups: Batch, epochs: int = 2) -> None:
    """Train with accumulation; the weights must be those of a descent on the groups."""
    network = bench.trainer(gradient_accumulation_steps=steps).train(epochs, data)
    dense = bench.dense()
    descend(dense, epochs * list(groups))
    bench.assert_layer(network, dense)


@check("gradients", "accumulation")
def accumulates(bench: Bench) -> None:
    """Gradients accumulated over batches make the update of one large batch."""
    whole = bench.batches(8, 8)
    _accumulated(bench, bench.manager(8, 4), 2, *whole)


@check("gradients", "accumulation")
def accumulates_by_samples(bench: Bench) -> None:
    """Accumulated batches count by their samples: 4, 4 and 1 make the update of 9."""
    _accumulated(bench, bench.manager(9, 4), 3, *bench.batches(9, 9))


@check("gradients", "accumulation")
def accumulates_to_the_end(bench: Bench) -> None:
    """A group that the end of the epoch breaks off makes an update of its own."""
    arrays = bench.arrays(10)
    groups = [{name: array[rows] for name, array in arrays.items()} for rows in (slice(0, 8), slice(8, 10))]
    _accumulated(bench, bench.manager(10, 4), 2, *groups)


@check("gradients", "accumulation")
def accumulates_without_a_length(bench: Bench) -> None:
    """The same where nobody knows how many batches there will be."""
    arrays = bench.arrays(12)
    groups = [{name: array[rows] for name, array in arrays.items()} for rows in (slice(0, 8), slice(8, 12))]
    _accumulated(bench, Unsized(split(arrays, 4)), 2, *groups)


@check("gradients", "accumulation", "clipping")
def clips_what_was_accumulated(bench: Bench) -> None:
    """Clipping acts on the accumulated gradient, once for each update."""
    network = bench.trainer(gradient_accumulation_steps=2, gradient_clip_norm=0.5).train(2, bench.manager(8, 4))
    dense = bench.dense()
    descend(dense, 2 * bench.batches(8, 8), change=_clip_norm)
    bench.assert_layer(network, dense)


def _clip_norm(gradients: Gradients) -> Gradients:
    norm = np.sqrt(sum(float(np.sum(gradient**2)) for gradient in gradients))
    return [gradient * min(1.0, 0.5 / norm) for gradient in gradients]


@check("gradients", "clipping")
def clips_the_norm(bench: Bench) -> None:
    """``gradient_clip_norm`` limits the 2-norm of all gradients together."""
    network = bench.trainer(gradient_clip_norm=0.5).train(2, bench.manager(8))
    dense = bench.dense()
    descend(dense, 2 * bench.batches(8), change=_clip_norm)
    bench.assert_layer(network, dense)


@check("gradients", "clipping")
def clips_values(bench: Bench) -> None:
    """``gradient_clip_value`` limits every entry of the gradients."""
    network = bench.trainer(gradient_clip_value=0.2).train(2, bench.manager(8))
    dense = bench.dense()
    descend(dense, 2 * bench.batches(8), change=lambda gradients: [np.clip(one, -0.2, 0.2) for one in gradients])
    bench.assert_layer(network, dense)


@check("gradients", "micro_batches")
def computes_in_parts(bench: Bench) -> None:
    """``micro_batches`` computes a batch in parts, with the update and the values of the whole."""
    trainer = bench.trainer(micro_batches=2, train_metrics={"again": bench.tested.mse})
    network = trainer.train(2, bench.manager(8))
    dense, batches = bench.dense(), bench.batches(8)
    losses, _ = descend(dense, 2 * batches)
    bench.assert_layer(network, dense)
    for name in ("mse", "again"):
        bench.assert_history(trainer, name, [weighted(losses[:2], batches), weighted(losses[2:], batches)])


@check("gradients", "micro_batches")
def computes_in_unequal_parts(bench: Bench) -> None:
    """Parts of a batch count by their samples: 5 samples in 2 parts make the update of 5."""
    network = bench.trainer(micro_batches=2).train(2, bench.manager(5, 5))
    dense = bench.dense()
    descend(dense, 2 * bench.batches(5, 5))
    bench.assert_layer(network, dense)


@check("gradients", "mixed_precision")
def computes_in_half_precision(bench: Bench) -> None:
    """``mixed_precision="bf16"`` computes in half precision, and keeps weights and losses in single precision."""
    trainer = bench.trainer(mixed_precision="bf16")
    before = _dtypes(bench, trainer.module)
    network = trainer.train(2, bench.manager(8))
    dense, batches = bench.dense(), bench.batches(8)
    losses, _ = descend(dense, 2 * batches)
    found = [values["mse"] for values in trainer.state.history]
    exact = [weighted(losses[:2], batches), weighted(losses[2:], batches)]
    np.testing.assert_allclose(found, exact, rtol=0.05)
    assert not np.allclose(found, exact, rtol=1e-5), "the losses are those of single precision"
    assert _dtypes(bench, network) == before, "the weights have another dtype"


@check("gradients")
def follows_a_schedule(bench: Bench) -> None:
    """A learning rate that halves after every epoch is applied, and recorded as it was in the epoch."""
    settings = bench.tested.halving()
    trainer = bench.trainer(**{**bench.tested.sgd(0.1), **settings})
    network = trainer.train(3, bench.manager(8))
    dense, optimizer = bench.dense(), Sgd(0.1)
    for _ in range(3):
        descend(dense, bench.batches(8), optimizer)
        optimizer.lr /= 2
    bench.assert_history(trainer, "lr", [0.1, 0.05, 0.025])
    bench.assert_layer(network, dense)


@check("gradients", "schedules")
def refuses_unknown_schedules(bench: Bench) -> None:
    """``lr_scheduler_cls`` that is no schedule is refused, before training."""
    caught((ValueError, TypeError), lambda: bench.trainer(lr_scheduler_cls=dict))


@check("gradients", "rollback")
def scales_rates(bench: Bench) -> None:
    """``scale_rates`` changes the learning rate of the steps that follow."""
    trainer = bench.trainer(**bench.tested.sgd(0.1))
    trainer.train(1, bench.manager(8))
    trainer.scale_rates(0.5)
    network = trainer.train(2, bench.manager(8))
    dense = bench.dense()
    descend(dense, bench.batches(8), Sgd(0.1))
    descend(dense, bench.batches(8), Sgd(0.05))
    bench.assert_history(trainer, "lr", [0.1, 0.05])
    bench.assert_layer(network, dense)


@check("gradients", "freezing")
def leaves_frozen_weights_alone(bench: Bench) -> None:
    """A weight that is not among the learned ones keeps its bits while the others learn, until it is learned again."""
    trainer = bench.trainer()
    backend, network = bench.backend, trainer.module
    names = backend.weights.learned_names(network)
    frozen = min(names)
    backend.weights.set_learned_names(network, names - {frozen})
    assert backend.weights.learned_names(network) == names - {frozen}, f"{frozen} is learned though it was frozen"
    before = _weights(bench, network)
    trainer.train(1, bench.manager(8))
    after = _weights(bench, network)
    assert bench.is_same(before[frozen], after[frozen]), f"{frozen} was frozen and changed"
    for name in names - {frozen}:
        assert not bench.is_same(before[name], after[name]), f"{name} was not frozen and did not change"
    backend.weights.set_learned_names(network, names)
    trainer.train(2, bench.manager(8))
    assert not bench.is_same(after[frozen], _weights(bench, network)[frozen]), f"{frozen} did not learn again"


def _weights(bench: Bench, network: object) -> Any:
    return bench.backend.arrays.to_numpy(
        bench.backend.arrays.snapshot(bench.backend.checkpoints.state_tree(network, {})["model"])
    )


def _dtypes(bench: Bench, network: object) -> dict[str, np.dtype]:
    return {name: array.dtype for name, array in _weights(bench, network).items()}
