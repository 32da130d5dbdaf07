"""What a search gives back: its trials, the best of them, and their parameters."""

import contextlib
import dataclasses
import functools
import json
import logging
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from delira.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    check_choice,
    check_paths,
    check_whole,
    expect,
    flag,
)
from delira.experiments.parameters import Parameters
from delira.experiments.stored_result import describe
from delira.experiments.tracked_trials import log_trials
from delira.logging.handlers import file_name
from delira.runs.stored_run import StoredRun, read_facts, read_run
from delira.utils import files, yaml_codec
from delira.utils.files import mapping

_log = logging.getLogger("delira")

#: of a trial, in its folder
FILE_NAME = "trial.json"
#: parameters of a search, with their spaces
SPACES = "search.yml"
STATES = ("finished", "pruned", "failed")
#: of what was asked for: among the settings, or the marks of the code
_TOLD_ELSEWHERE = ("spaces", "code", "seed", "num_epochs")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """One setting that was tried."""

    number: int
    """From 0, in the order in which they were proposed."""
    state: str
    """``"finished"``, ``"pruned"``: given up, or ``"failed"``."""
    values: Mapping[str, Any]
    """By the path of the parameter; of a choice what stands for it: a number or a text."""
    scores: tuple[float, ...] = ()
    """Of each metric that is looked at, the mean over the folds; of one that was given up as :attr:`score_of` says."""
    fold_scores: tuple[tuple[float, ...], ...] = ()
    """The same of each fold that has ended, in the order of their numbers."""
    constraints: tuple[float, ...] = ()
    """Above 0: broken."""
    epochs: int = 0
    """Of all folds together."""
    seconds: float = math.nan
    """Of its trainings and tests, over all sessions."""
    error: str = ""
    """Why it failed."""
    path: Path | None = None
    """Its folder, a cross-validation of its own."""

    def __post_init__(self) -> None:
        check_whole(self, at_least=0, number=self.number, epochs=self.epochs)
        check_choice(self, STATES, state=self.state)
        is_seconds = isinstance(self.seconds, numbers.Real) and not isinstance(self.seconds, bool)
        expect(
            ("values", self.values, isinstance(self.values, Mapping), "a dictionary {parameter: value}"),
            ("seconds", self.seconds, is_seconds, "a number"),
            ("error", self.error, isinstance(self.error, str), "a text"),
        )
        for name in ("scores", "constraints"):
            expect((name, getattr(self, name), _are_numbers(getattr(self, name)), "a tuple of numbers"))
        are_rows = isinstance(self.fold_scores, (list, tuple)) and all(map(_are_numbers, self.fold_scores))
        expect(("fold_scores", self.fold_scores, are_rows, "a tuple of numbers for each fold"))
        if self.path is not None:
            check_paths(self, path=self.path)

    @property
    def score_of(self) -> str:
        """What the scores are of: ``"all folds"``, or ``"held-out part"`` where there are no folds.

        Of a trial that was given up or failed ``"validation"``, that of its last epoch, or ``"2 folds"``, those that
        were tested: these are not to be compared. Empty without scores.
        """
        n_folds = len(self.fold_scores)
        if not self.scores:
            return ""
        if self.state == "finished":
            return "held-out part" if n_folds == 1 else "all folds"
        return f"{n_folds} fold{'s' if n_folds > 1 else ''}" if n_folds else "validation"

    @property
    def is_feasible(self) -> bool:
        """Return True if it has ended and breaks no constraint."""
        return self.state == "finished" and not any(value > 0 for value in self.constraints)

    # what a table of parts of a run shows, and the ledger says

    @property
    def fold(self) -> int:
        """Its number."""
        return self.number

    @property
    def history(self) -> Sequence[Any]:
        """One entry for each epoch."""
        return range(self.epochs)

    @property
    def best_score(self) -> None:
        """Its epochs have none in common."""
        return

    def means(self) -> dict[str, float]:
        """Return its scores by number of the metric, with what they are of, unless it is all folds."""
        of = "" if self.state == "finished" else f" of {self.score_of}"
        return {f"score {place}{of}" if place else f"score{of}": value for place, value in enumerate(self.scores)}

    def to_json(self) -> str:
        """Return what its file holds."""
        stated = {name: value for name, value in vars(self).items() if name != "path"}
        return json.dumps(files.sealed(json.loads(json.dumps(stated))), indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> "Trial":
        """Read what lies in its folder.

        Raises
        ------
        CheckpointError
            If it is damaged.
        FileNotFoundError
            If it has not ended.
        """
        try:
            told = files.read_json(path / FILE_NAME)
            if files.is_changed(told) or told["state"] not in STATES:
                raise ValueError("it is not as it was written")
            fields = {field.name: told[field.name] for field in dataclasses.fields(cls) if field.name != "path"}
            fields |= {name: tuple(fields[name]) for name in ("scores", "constraints")}
            return cls(**fields | {"fold_scores": tuple(map(tuple, fields["fold_scores"]))}, path=path)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{path / FILE_NAME} cannot be read: {error}") from error


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class SearchResult:
    """All trials of a search, and the best.

    Examples
    --------
    >>> result = experiment.tune(data, n_trials=50, num_splits=5)  # doctest: +SKIP
    >>> experiment.kfold(other_data, params=result.params)  # doctest: +SKIP
    """

    trials: Sequence[Trial]
    metrics: Sequence[str]
    """Names of the metrics that are looked at."""
    are_maximised: Sequence[bool]
    """Of each whether large values are good."""
    path: Path
    """Folder of the run."""
    name: str = ""
    searched: Parameters | None = None
    """The parameters with their spaces."""
    problems: Sequence[str] = ()
    """What of a stored search cannot be read. Part of :attr:`warnings`."""

    def __post_init__(self) -> None:
        for name, kind, what in (
            ("trials", Trial, "Trial"),
            ("metrics", str, "texts"),
            ("are_maximised", bool, "bool"),
            ("problems", str, "texts"),
        ):
            given = getattr(self, name)
            is_list = isinstance(given, (list, tuple)) and all(isinstance(each, kind) for each in given)
            expect((name, given, is_list, f"a list of {what}"))
        if len(self.metrics) != len(self.are_maximised) or not self.metrics:
            raise ConfigError(f"metrics={self.metrics!r} needs an entry of are_maximised for each, and one at least")
        expect(("name", self.name, isinstance(self.name, str), "a text"))
        check_paths(self, path=self.path)
        is_known = self.searched is None or isinstance(self.searched, Parameters)
        expect(("searched", self.searched, is_known, "Parameters"))

    @classmethod
    def load(cls, path: str | Path) -> "SearchResult":
        """Read a search from its folder, or what has ended of it; nothing that is stored there is run.

        Parameters
        ----------
        path
            The folder, or the one above it: then its newest run.

        Raises
        ------
        ConfigError
            If there is no search.
        """
        return cls(**_read(read_run(path)))

    @functools.cached_property
    def info(self) -> dict[str, Any]:
        """For the page, as :attr:`KFoldResult.info`: what the folder says of how the search was made; empty without it.

        The settings have the spaces in them; ``search`` is what was asked for, by the names of ``tune``.
        """
        manifest, _ = read_facts(Path(self.path))
        asked = mapping(manifest.get("search"))
        if not asked:
            return {}
        searched = {}
        if self.searched is not None:  # the manifest has values that stand for the spaces
            searched = {
                "model_params": yaml_codec.encode(self.searched.model_kwargs()),
                "settings": {
                    **mapping(manifest.get("settings")),
                    **yaml_codec.encode(self.searched.training_settings()),
                },
            }
        own = {name: value for name, value in asked.items() if value is not None and name not in _TOLD_ELSEWHERE}
        options = {**mapping(manifest.get("options")), **own, "n_trials": manifest.get("n_trials")}
        told = {name: manifest.get(name) for name in ("num_splits", "n_samples")}
        return {**describe({**manifest, **searched, "options": options}), **told, "search": asked}

    @functools.cached_property
    def best_trials(self) -> list[Trial]:
        """Those that break no constraint and that no other one beats: of one metric the best, the earliest of equals.

        Of several metrics those that no other trial is at least as good as in all, and better in one.
        """
        found = [trial for trial in self.trials if trial.is_feasible]
        if len(self.metrics) == 1:
            return [max(found, key=lambda trial: (self._signed(trial)[0], -trial.number))] if found else []
        return [trial for trial in found if not any(self._beats(other, trial) for other in found)]

    @property
    def best(self) -> Trial:
        """The best trial.

        Raises
        ------
        DataError
            If none has ended, or there are several metrics: then :attr:`best_trials` has those to choose from.
        """
        found = self.best_trials
        if not found:
            broken = ", and each that has finished breaks a constraint" if self._has_finished() else ""
            raise DataError(f"no trial of {str(self.path)!r} has ended well: {self._counted()}{broken}")
        if len(self.metrics) > 1:
            raise DataError(
                f"of {len(self.metrics)} metrics no trial is the best; choose one of result.best_trials, and take "
                "result.params_of(trial)"
            )
        return found[0]

    @property
    def params(self) -> Parameters:
        """The parameters of the best trial."""
        return self.params_of(self.best)

    def params_of(self, trial: Trial) -> Parameters:
        """Return the parameters of a trial, in which every space has its value."""
        if self.searched is None:
            raise DataError(f"the parameters of {str(self.path)!r} cannot be read; each trial's are in its folder")
        spaces = self.searched.spaces()
        return self.searched.with_values({name: spaces[name].valued(shown) for name, shown in trial.values.items()})

    def table(self) -> list[dict[str, Any]]:
        """Return one row for each trial: number, state, scores, what they are of, values, epochs, seconds."""
        return [
            {
                "trial": trial.number,
                "state": trial.state,
                **dict(zip(self.metrics, trial.scores or [math.nan] * len(self.metrics), strict=True)),
                "score_of": trial.score_of,
                **trial.values,
                "epochs": trial.epochs,
                "seconds": trial.seconds,
            }
            for trial in self.trials
        ]

    def to_dataframe(self) -> Any:
        """Return the table as a data frame of pandas, one row for each trial."""
        import pandas

        return pandas.DataFrame(self.table()).set_index("trial")

    def importance(self) -> dict[str, float]:
        """Share of what differs between the trials in the first metric that each parameter explains by itself.

        Returns
        -------
        dict
            By name, the largest first; see :func:`delira.search.importance.importances`. Empty where nothing can be
            said, or the spaces are not known.
        """
        from delira.search.importance import importances

        if self.searched is None:
            return {}
        ended = [(trial.values, trial.scores[0]) for trial in self.trials if trial.state == "finished"]
        return importances(ended, self.searched.spaces())

    @property
    def warnings(self) -> list[str]:
        """What a reader of the numbers must know."""
        found = [*self.problems]
        ended = [trial for trial in self.trials if trial.state == "finished"]
        if len(ended) > 1:
            found.append(
                f"The best score was chosen out of {len(ended)}, so it is better than what these settings reach on new "
                "data. An honest estimate searches anew in each fold of an outer cross-validation: kfold(…, tune=…)."
            )
        if ended and all(len(trial.fold_scores) == 1 for trial in ended):
            found.append("Each trial was scored once, on one held-out part: how much that varies is not known.")
        if failed := [trial for trial in self.trials if trial.state == "failed"]:
            found.append(f"{len(failed)} trials failed, the first, {failed[0].number}, by {failed[0].error}")
        return found

    def plot(self, path: str | Path | None = None) -> dict[str, Any]:
        """Draw scores by trial, what decides them, and the score over each parameter.

        Parameters
        ----------
        path
            Folder that a picture of each is saved in, as PNG; made if it does not exist.

        Returns
        -------
        dict
            Figures of matplotlib, by name.
        """
        from delira.report.searches import search_sections

        figures = {name: figure for section in search_sections(self) for name, figure in section.panels.items()}
        if path is not None:
            Path(path).mkdir(parents=True, exist_ok=True)
            for name, figure in figures.items():
                figure.savefig(Path(path) / f"{file_name(name)}.png", dpi=200)
        return figures

    def log_to(self, handler_of: Callable[[Trial], logging.Handler], *, only_missing: bool = False) -> None:
        """Write each trial as a run of a tracker: parameters, scores of its folds, its own, and TensorBoard's HParams.

        Parameters
        ----------
        handler_of
            Called with each trial, returns the handler that is its run, which is closed here: ``lambda trial:
            MLflowHandler(experiment="digits", run_name=f"trial {trial.number}")``.
        only_missing
            Only trials that have reached no tracker by ``tune(…, log_to=…)`` or in this way; noted in their folders.

        Raises
        ------
        ConfigError
            If that is no function, or gives no handler of its own for a trial.
        """
        expect(flag("only_missing", only_missing))
        log_trials(self, handler_of, only_missing)

    def to_html(self, path: str | Path | None = None) -> str | Path:
        """A page that stands on its own: the best trials, scores by trial, importances, slices, all trials.

        Returns
        -------
        str or Path
            The page, or the file it was written to.
        """
        from delira.report.searches import search_page

        page = search_page(self)
        return files.text_or_file(page, path)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        title = f"{self.name}: {self._counted()}" if self.name else self._counted()
        best = sorted(self.best_trials, key=self._signed, reverse=True)
        lines = [title, ""]
        for trial in best[:10]:
            scores = "  ".join(f"{name} {value:.4g}" for name, value in zip(self.metrics, trial.scores, strict=True))
            values = "  ".join(f"{name}={_short(value)}" for name, value in trial.values.items())
            lines.append(f"trial {trial.number}  {scores}  {values}")
        lines += [f"Warning: {problem}" for problem in self.warnings]
        lines += ["", f"folder  {self.path}"]
        return files.harmless("\n".join(lines))

    def __repr__(self) -> str:
        return f"SearchResult({self.name!r}, {self._counted()}, metrics={[*self.metrics]})"

    def _counted(self) -> str:
        counts = {state: sum(trial.state == state for trial in self.trials) for state in STATES}
        parts = [f"{count} {state}" for state, count in counts.items() if count]
        return f"{len(self.trials)} trials, {', '.join(parts) or 'none has ended'}"

    def _has_finished(self) -> bool:
        return any(trial.state == "finished" for trial in self.trials)

    def _signed(self, trial: Trial) -> tuple[float, ...]:
        both = zip(trial.scores, self.are_maximised, strict=True)
        return tuple(value if is_maximised else -value for value, is_maximised in both)

    def _beats(self, one: Trial, other: Trial) -> bool:
        pairs = [*zip(self._signed(one), self._signed(other), strict=True)]
        return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def _are_numbers(given: object) -> bool:
    return isinstance(given, (list, tuple)) and all(
        isinstance(each, numbers.Real) and not isinstance(each, bool) for each in given
    )


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _read(run: StoredRun) -> dict[str, Any]:
    """Return the fields of the result of a search that lies in a folder.

    Parameters
    ----------
    run
        What was found there.

    Raises
    ------
    ConfigError
        If it is no search, or its manifest cannot be read.
    """
    searched, directions = files.mapping(run.manifest.get("search")), run.manifest.get("directions")
    if run.kind != "tune" or not searched or not isinstance(directions, list):
        raise ConfigError(f"{run.path} is no search; KFoldResult.load reads cross-validations and trainings")
    trials, problems = [], []
    for folder in sorted((run.path / "trials").glob("trial_*")):
        try:
            trials.append(Trial.read(folder))
        except FileNotFoundError:
            continue
        except CheckpointError as error:
            problems.append(f"{error}; the trial is left out, and may have been the best")
    params = None
    with contextlib.suppress(ConfigError, OSError):
        params = Parameters.load(run.path / SPACES)
    return {
        "trials": sorted(trials, key=lambda trial: trial.number),
        "metrics": searched.get("metric") or [],
        "are_maximised": [each == "max" for each in directions],
        "path": run.path,
        "name": run.name,
        "searched": params,
        "problems": problems,
    }
