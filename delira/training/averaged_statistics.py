"""The running statistics that go with averaged weights: computed anew by a pass over the training data."""

import contextlib
import copy
import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from delira import state as keys
from delira.training.data_position import is_foreign_loader
from delira.training.generators import own_generators, seed_generators

_log = logging.getLogger("delira")

#: entry of a checkpoint: names of the running statistics in its ``"model"`` that are of the averaged weights
RENEWED = "statistics"


class AveragedStatistics:
    """Running statistics of normalisation layers for the averaged weights of a trainer, where it has any.

    Statistics that were followed in the training are of the weights as they were then. A callback that averages says
    by ``update_statistics`` whether they are computed anew for the average whenever it is used.

    Parameters
    ----------
    trainer
        The trainer.

    References
    ----------
    Izmailov et al., Averaging weights leads to wider optima and better generalization, UAI 2018, section 3.2.
    """

    def __init__(self, trainer: Any):
        self._trainer = trainer
        self._values: dict[str, Any] = {}
        #: steps of the training after which they were computed
        self._step: int | None = None

    def check(self, average: Any) -> None:
        """Refuse a callback that wants statistics which the backend, or a layer, cannot compute anew.

        Raises
        ------
        ConfigError
            Naming the layer.
        """
        trainer = self._trainer
        if getattr(average, "update_statistics", False) and trainer.backend.statistics_names(trainer.module):
            trainer.backend.renew_statistics(trainer.module, ())

    # ------------------------------------------------------------------ what there is

    def current(self) -> dict[str, Any]:
        """Those of the average as it is now, by name; empty if they were not computed."""
        return self._values if self._step == self._trainer.state.global_step else {}

    def take(self, tree: Mapping[str, Any]) -> None:
        """Continue with those of a checkpoint."""
        names, state = tree.get(RENEWED) or (), tree.get("state")
        self._values = {name: tree["model"][name] for name in names}
        self._step = int(state["global_step"]) if names and isinstance(state, Mapping) else None

    def lacking(self, tree: Mapping[str, Any] | None) -> tuple[str, ...]:
        """Names of those that the weights of a checkpoint, or the average as it is now, do not have of their own."""
        is_averaged = self._has_average if tree is None else "training_model" in tree
        if not is_averaged or (self.current() if tree is None else tree.get(RENEWED)):
            return ()
        return tuple(sorted(self._trainer.backend.statistics_names(self._trainer.module)))

    @property
    def _has_average(self) -> bool:
        average = self._trainer.weight_average
        return average is not None and average.weights() is not None

    # ------------------------------------------------------------------ the pass

    def tell(self, data: Any) -> None:
        """Say once if the statistics will not be those of the average."""
        trainer = self._trainer
        average = trainer.weight_average
        if average is None or not (names := sorted(trainer.backend.statistics_names(trainer.module))):
            return
        if not getattr(average, "update_statistics", False):
            cure = (
                "update_statistics=True computes them anew, by a pass over the training data before each validation "
                "and at the end"
            )
        elif _is_spent(data):
            cure = (
                f"they cannot be computed anew, as the training data, a {type(_loader_of(data)).__name__}, give their "
                "batches once: pass a data manager, a loader or a list"
            )
        else:
            return
        trainer._warn_once(
            f"{type(average).__name__}: the averaged weights are validated, tested and saved with running statistics "
            f"({_listed(names)}) of the weights that are trained, which do not fit them; {cure}"
        )

    def renew(self, data: Any, epoch: int) -> bool:
        """Compute them for the average as it is now, if that is wanted and was not done; returns whether it was.

        The batches are those of the training epoch, seeded by the same counters, in training mode; nothing but the
        statistics is left of the pass. It ends at once when a signal comes, and nothing is computed then.

        Parameters
        ----------
        data
            The training data.
        epoch
            The epoch that has ended.
        """
        trainer = self._trainer
        if self.current() or not self._has_average:
            return False
        self.tell(data)
        names = trainer.backend.statistics_names(trainer.module)
        if not names or not getattr(trainer.weight_average, "update_statistics", False) or _is_spent(data):
            return False
        with self._aside(data), trainer._averaged_weights():
            seed_generators(trainer.backend, trainer.seed, trainer.fold, epoch, stream="statistics")
            with trainer.backend.training(trainer.module):
                trainer.backend.renew_statistics(trainer.module, self._calls(data, epoch))
            model = trainer.backend.state_tree(trainer.module, {})["model"]
            values = trainer.backend.snapshot({name: model[name] for name in names})
        if trainer.stop_signals.received is not None:
            return False
        self._values, self._step = values, trainer.state.global_step
        return True

    def _calls(self, data: Any, epoch: int) -> Iterator[Callable[[], Any]]:
        """One call of the network for each batch."""
        trainer = self._trainer
        with trainer._fed(trainer._batches_again(data, epoch), ahead=False) as fed:
            for number, (batch, _) in enumerate(fed):
                if trainer.stop_signals.received is not None:
                    return
                prepared = trainer._prepare_batch(batch)
                if trainer._shows_validation:
                    trainer.facts[keys.BATCH] = number
                    prepared = trainer.sampled(prepared, "on_sample_validation")
                yield functools.partial(trainer.forward, prepared)

    @contextlib.contextmanager
    def _aside(self, data: Any) -> Iterator[None]:
        """Scope after which generators, state and a loader of the user's are as they were."""
        trainer, loader = self._trainer, _loader_of(data)
        facts, before = trainer.facts, dict(trainer.facts)
        position = copy.deepcopy(loader.state_dict()) if is_foreign_loader(loader) else None
        drawn = [(generator, generator.get_state()) for generator in _generators_of(loader)]
        facts[keys.STOP_TRAINING] = False
        try:
            with own_generators(trainer.backend):
                yield
        finally:
            facts.clear()
            facts.update(before)
            if position is not None:
                loader.load_state_dict(position)
            for generator, state in drawn:
                generator.set_state(state)


def _loader_of(data: Any) -> Any:
    """What gives the batches: a trial has its loader inside of its data."""
    return data.generator if hasattr(data, "keeps_iterator") else data


def _is_spent(data: Any) -> bool:
    """Whether it is an iterator, which nobody can go through twice."""
    return hasattr(_loader_of(data), "__next__")


def _generators_of(loader: Any) -> list[Any]:
    """Generators of its own that a loader like PyTorch's draws its order with."""
    batches = getattr(loader, "batch_sampler", None)
    holders = (loader, getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None))
    found = [getattr(holder, "generator", None) for holder in holders]
    return list({id(one): one for one in found if hasattr(one, "get_state") and hasattr(one, "set_state")}.values())


def _listed(names: Sequence[str], n: int = 2) -> str:
    return ", ".join(names[:n]) + (f" and {len(names) - n} more" if len(names) > n else "")


def caveats_of_averages(folds: Sequence[Any], is_training: bool) -> list[str]:
    """Sentences about averaged weights that were used with running statistics of others.

    Parameters
    ----------
    folds
        Finished ones, or the trainer of a single training.
    is_training
        Whether it is a single training, which has no folds to be named.
    """
    found = [fold for fold in folds if fold.raw_statistics]
    if not found:
        return []
    who = "the network has" if is_training else f"fold {_listed([str(each.fold) for each in found], 10)}: tested with"
    return [
        f"{who} averaged weights with running statistics ({_listed(found[0].raw_statistics)}) of the weights that were "
        "trained, which do not fit them; update_statistics=True of the callback that averages computes them anew"
    ]
