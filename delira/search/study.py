"""A study of Optuna in the folder of a run: proposals and values, shared by all who work at them.

It keeps no more than that: who runs a trial is a lease of the run. All that is written is written under one lease, by
whole lines, so that what a kill leaves half written is cut off by who writes next.
"""

import contextlib
import copy
import functools
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from delira.errors import CheckpointError, ConfigError, LeaseLostError
from delira.runs.leases import Lease, Leases
from delira.search.engine import JournalFileBackend, TrialState, optuna
from delira.search.tune import Tune
from delira.utils import files
from delira.utils.seeding import derive_int
from delira.utils.spaces import Choice, Float, Int, Space

_log = logging.getLogger("delira")
_P = ParamSpec("_P")
_T = TypeVar("_T")

#: in the folder of the run; Optuna's dashboard opens it
FILE_NAME = "study.journal"
STATES = {
    "finished": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}

#: begins the name under which a trial has what a pruner said of a step
_VERDICT = "said_of_step_"

#: asks for the value of each space that is there: name and space in, value out
Pick = Callable[[str, Space], Any]


class _Journal(JournalFileBackend):
    """Optuna's file, of which lines that can be written again need not survive a power loss.

    Parameters
    ----------
    file
        Where it is.
    check
        Raises if somebody has taken the lease over.
    """

    def __init__(self, file: Path, check: Callable[[], None]):
        super().__init__(str(file), lock_obj=_HeldBefore())  # type: ignore[arg-type]
        self._file, self._check = file, check

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append a line for each."""
        with open(self._file, "ab") as file:
            self._check()  # who was stopped meanwhile knows nothing of what the next holder has written
            file.write("".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs).encode())
            file.flush()
            files.sync(file)


class _HeldBefore:
    """The lock of the file, which the lease is that every writer holds."""

    def acquire(self) -> bool:
        """Do nothing."""
        return True

    def release(self) -> None:
        """Do nothing."""


def _until_held(
    method: Callable[Concatenate["Study", _P], _T],
) -> Callable[Concatenate["Study", _P], _T]:
    """Make a method that writes begin again if the lease was taken over meanwhile: others may have written it."""

    @functools.wraps(method)
    def called(self: "Study", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        while True:
            try:
                return method(self, *args, **kwargs)
            except LeaseLostError as error:
                self.forget()
                _log.warning("%s; it is done again", error)

    return called


class Study:
    """The trials of a search, by their numbers from 0.

    Parameters
    ----------
    folder
        Of the run.
    name
        Of the experiment.
    tune
        What is asked for.
    are_maximised
        Of each metric whether large values are good.
    seed
        The proposal of trial ``n`` depends on ``(seed, n)`` and on what is known of the other trials.
    """

    def __init__(self, folder: Path, name: str, tune: Tune, are_maximised: Sequence[bool], seed: int):
        self._file, self._leases = folder / FILE_NAME, Leases(folder)
        self._tune, self._seed = tune, seed
        named: Mapping[bool, Literal["maximize", "minimize"]] = {True: "maximize", False: "minimize"}
        self._directions = [named[each] for each in are_maximised]
        self._copy: optuna.storages.InMemoryStorage | None = None
        self._open(name)

    @_until_held
    def _open(self, name: str) -> None:
        """Read the file, or begin it."""
        with self._held():
            try:
                self._storage = optuna.storages.JournalStorage(_Journal(self._file, lambda: self._lease.check()))
            except ValueError as error:
                raise CheckpointError(
                    f"{self._file} is damaged: {error}; bring a copy of it back, or begin a new search"
                ) from error
            known = self._storage.get_all_studies()
            self._name = known[0].study_name if known else name  # whatever the experiment is called by now
            self._study = optuna.create_study(
                storage=self._storage, study_name=self._name, directions=self._directions, load_if_exists=True
            )
            self._pruner = _pruner(self._tune)
            if not known:  # what is written is synced, and not that the file is there
                files.sync_folder(self._file.parent)

    def forget(self) -> None:
        """Forget what is kept in memory, which may have more than the file."""
        self._copy = None

    def check(self, spaces: Mapping[str, Space]) -> None:
        """Refuse a file whose trials were proposed from other spaces: it is that of another search.

        Raises
        ------
        CheckpointError
            If it is.
        """
        own = {name: distribution_of(space) for name, space in spaces.items()}
        for trial in self.trials():
            if other := [name for name, found in trial.distributions.items() if own.get(name) != found]:
                raise CheckpointError(
                    f"{self._file} is of another search: its trial {trial.number} has {other[0]!r} from "
                    f"{trial.distributions[other[0]]}, which is none of these spaces; bring a copy of it back, or "
                    "begin a new search"
                )

    @_until_held
    def proposed(self, number: int, ask: Callable[[int, Pick], None]) -> dict[str, Any]:
        """Return the values of a trial, proposed now unless they were before.

        Parameters
        ----------
        number
            Of the trial.
        ask
            Called with the number of a trial and a function that proposes the value of a space, for this trial and for
            those before it that nobody has proposed yet.
        """
        with self._held():
            for missing in range(len(self.trials()), number + 1):
                self._propose(missing, ask)
            return dict(self.trials()[number].params)

    def _propose(self, number: int, ask: Callable[[int, Pick], None]) -> None:
        """Propose all values in memory first, so that the file has a whole trial or none."""
        distributions: dict[str, optuna.distributions.BaseDistribution] = {}
        storage, self._copy = self._in_memory(), None
        memory = optuna.load_study(study_name=self._name, storage=storage, sampler=self._sampler(number))
        trial = memory.ask()

        def pick(name: str, space: Space) -> Any:
            distributions[name] = distribution_of(space)
            return space.valued(_suggested(trial, name, distributions[name]))

        ask(number, pick)
        self._copy = storage
        made = memory.get_trials(deepcopy=False)[-1]
        template = optuna.trial.create_trial(
            state=TrialState.RUNNING,
            params={name: made.params[name] for name in distributions},
            distributions=distributions,
            system_attrs=dict(made.system_attrs),
        )
        self._storage.create_new_trial(self._id, template_trial=template)

    def _in_memory(self) -> optuna.storages.InMemoryStorage:
        """Return all trials as they are known by now, in memory; a copy of each takes time, so it is kept."""
        storage = self._copy or optuna.storages.InMemoryStorage()
        study = optuna.create_study(
            storage=storage, study_name=self._name, directions=self._directions, load_if_exists=True
        )
        own = study.get_trials(deepcopy=False)
        study_id = storage.get_study_id_from_name(self._name)
        for known in self.trials():
            if known.number >= len(own):
                study.add_trial(known)
            elif not own[known.number].state.is_finished():
                trial_id = storage.get_trial_id_from_study_id_trial_number(study_id, known.number)
                _bring_up_to_date(storage, trial_id, known)
        return storage

    @_until_held
    def record(self, number: int, params: Mapping[str, Any], spaces: Mapping[str, Space]) -> dict[str, Any]:
        """Return the values of a trial, which are these unless others were recorded; of a grid."""
        with self._held():
            if len(self.trials()) == number:
                distributions = {name: distribution_of(spaces[name]) for name in params}
                made = optuna.trial.create_trial(
                    state=TrialState.RUNNING, params=dict(params), distributions=distributions
                )
                self._storage.create_new_trial(self._id, template_trial=made)
            return dict(self.trials()[number].params)

    @_until_held
    def report(self, number: int, step: int, value: float, since: int = 0) -> bool:
        """Tell a value on the way; returns True if the trial is to be given up.

        What was once said of a step is said again, whatever has happened since: a trial that goes on after a kill may
        come to a step twice, and a pruner that is asked twice may answer otherwise.

        Parameters
        ----------
        number
            Of the trial.
        step
            Of all trials the same step is compared.
        value
            So far.
        since
            First step that is looked at, as those before are of another fold.
        """
        with self._held():
            trial_id = self._id_of(number)
            known, name = self._storage.get_trial(trial_id), f"{_VERDICT}{step}"
            verdict = known.system_attrs.get(name)
            if verdict is None and step in known.intermediate_values:
                return False
            if verdict is None:
                verdict = self._verdict(number, step, value, since)
                if any(verdict.values()):  # one line, from which the others are made again
                    self._storage.set_trial_system_attr(trial_id, name, verdict)
            with files.unsynced() if any(verdict.values()) else contextlib.nullcontext():
                for attribute, noted in verdict["notes"].items():
                    if attribute not in known.system_attrs:
                        self._storage.set_trial_system_attr(trial_id, attribute, noted)
                if step not in known.intermediate_values:
                    self._storage.set_trial_intermediate_value(trial_id, step, value)
            return bool(verdict["is_over"])

    def _verdict(self, number: int, step: int, value: float, since: int) -> dict[str, Any]:
        """Ask the pruner in memory: what it says of a step, and what it notes beside."""
        storage, self._copy = self._in_memory(), None
        study = optuna.load_study(study_name=self._name, storage=storage)
        trial_id = storage.get_trial_id_from_study_id_trial_number(storage.get_study_id_from_name(self._name), number)
        before = {*storage.get_trial(trial_id).system_attrs}
        storage.set_trial_intermediate_value(trial_id, step, value)
        seen = copy.copy(storage.get_trial(trial_id))
        seen.intermediate_values = {at: told for at, told in seen.intermediate_values.items() if since <= at <= step}
        is_over = bool(self._pruner.prune(study, seen))
        noted = storage.get_trial(trial_id).system_attrs
        self._copy = storage
        return {"is_over": is_over, "notes": {name: noted[name] for name in noted if name not in before}}

    @_until_held
    def finish(
        self, number: int, state: str, scores: Sequence[float] | None, constraints: Sequence[float] | None = None
    ) -> None:
        """Record how a trial ended; does nothing if that is known.

        The folder of the trial says it, too, and the next proposal syncs both.

        Parameters
        ----------
        number
            Of the trial.
        state
            ``"finished"``, ``"pruned"`` or ``"failed"``.
        scores
            Of a finished one, one for each metric.
        constraints
            Above 0: broken.
        """
        with self._held(), files.unsynced():
            trial_id = self._id_of(number)
            if self._storage.get_trial(trial_id).state.is_finished():
                return
            for place, value in enumerate(constraints or ()):
                optuna.trial.Trial(self._study, trial_id).set_constraint(str(place), value)
            values = [*map(float, scores)] if state == "finished" and scores is not None else None
            self._storage.set_trial_state_values(trial_id, STATES[state], values)

    def trials(self) -> list[optuna.trial.FrozenTrial]:
        """Return all trials that were proposed, in their order."""
        return self._storage.get_all_trials(self._id, deepcopy=False)

    def n_in(self, *states: str) -> int:
        """Return how many trials have ended so."""
        wanted = [STATES[state] for state in states]
        return sum(trial.state in wanted for trial in self.trials())

    @functools.cached_property
    def _id(self) -> int:
        return self._storage.get_study_id_from_name(self._name)

    def _id_of(self, number: int) -> int:
        if number >= len(self.trials()):
            raise CheckpointError(
                f"{self._file} does not know trial {number}, which has its folder: it was replaced; bring a copy of it "
                "back, or begin a new search"
            )
        return self._storage.get_trial_id_from_study_id_trial_number(self._id, number)

    def _sampler(self, number: int) -> Any:
        seed = derive_int(self._seed, number, stream="search") % 2**32
        given = self._tune.sampler
        made: Mapping[str, Callable[..., Any]] = {
            "tpe": functools.partial(optuna.samplers.TPESampler, constant_liar=True),
            "random": optuna.samplers.RandomSampler,
            "gp": optuna.samplers.GPSampler,
            "nsga2": optuna.samplers.NSGAIISampler,
        }
        return (made[given] if isinstance(given, str) else given)(seed=seed)

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Scope in which nobody else writes, and Optuna says nothing."""
        with self._leases.waited_for("study") as self._lease, quiet():
            _cut_half_line(self._file, self._lease)
            yield


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Scope in which Optuna says nothing; it is as talkative as before afterwards."""
    verbosity = optuna.logging.get_verbosity()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            yield
        finally:
            optuna.logging.set_verbosity(verbosity)


def distribution_of(space: Space) -> optuna.distributions.BaseDistribution:
    """Return what Optuna calls a space."""
    if isinstance(space, Float):
        return optuna.distributions.FloatDistribution(space.low, space.high, log=space.log, step=space.step)
    if isinstance(space, Int):
        return optuna.distributions.IntDistribution(space.low, space.high, log=space.log, step=space.step)
    if isinstance(space, Choice):
        return optuna.distributions.CategoricalDistribution(space.labels)
    raise ConfigError(f"{space!r} is no space that a study knows")


def _suggested(trial: optuna.Trial, name: str, distribution: optuna.distributions.BaseDistribution) -> Any:
    if isinstance(distribution, optuna.distributions.FloatDistribution):
        return trial.suggest_float(
            name, distribution.low, distribution.high, log=distribution.log, step=distribution.step
        )
    if isinstance(distribution, optuna.distributions.IntDistribution):
        return trial.suggest_int(
            name, distribution.low, distribution.high, log=distribution.log, step=distribution.step
        )
    return trial.suggest_categorical(name, _choices(distribution))


def _bring_up_to_date(storage: optuna.storages.BaseStorage, trial_id: int, known: optuna.trial.FrozenTrial) -> None:
    """Tell a storage what has become of a trial that ran when it was told of it last."""
    own = storage.get_trial(trial_id)
    for step, value in known.intermediate_values.items():
        if step not in own.intermediate_values:
            storage.set_trial_intermediate_value(trial_id, step, value)
    for name, value in known.system_attrs.items():
        if name not in own.system_attrs:
            storage.set_trial_system_attr(trial_id, name, value)
    if known.state.is_finished():
        storage.set_trial_state_values(trial_id, known.state, known.values)


def _choices(distribution: optuna.distributions.BaseDistribution) -> Sequence[Any]:
    return distribution.choices if isinstance(distribution, optuna.distributions.CategoricalDistribution) else ()


def _pruner(tune: Tune) -> Any:
    given = tune.pruner
    made: Mapping[str, Callable[[], Any]] = {
        "median": optuna.pruners.MedianPruner,
        "percentile": functools.partial(optuna.pruners.PercentilePruner, 25.0),
        "halving": functools.partial(optuna.pruners.SuccessiveHalvingPruner, min_resource=1),
        "wilcoxon": optuna.pruners.WilcoxonPruner,
    }
    if given is None:
        return optuna.pruners.NopPruner()
    return made[given]() if isinstance(given, str) else given


def _cut_half_line(file: Path, lease: Lease) -> None:
    """Cut off what a writer that was killed left of its last line; only who holds the lease may."""
    if not file.exists():
        return
    with open(file, "r+b") as opened:
        end = opened.seek(0, os.SEEK_END)
        if not end:
            return
        opened.seek(-1, os.SEEK_END)
        if opened.read(1) == b"\n":
            return
        opened.seek(0)
        lease.check()
        opened.truncate(opened.read().rfind(b"\n") + 1)
