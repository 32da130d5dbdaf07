"""The page of a search, and its plots: scores by trial, what decides them, and each parameter by itself."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.report import plots
from delira.report.page import date_of, flat, made_with, shown_section, template
from delira.report.table import DASH, Seconds, Section, Table, duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from delira.utils.pictures import Figure

_MANY = 40
"""Rows of a longer table are folded away."""
_COLOURS = {"finished": plots.TRAINING, "pruned": plots.MUTED, "failed": plots.VALIDATION}


def search_page(result: Any) -> str:
    """Render the page of a ``SearchResult``; every text from outside is escaped.

    Returns
    -------
    str
        HTML without any link to another file.
    """
    counts = {state: sum(trial.state == state for trial in result.trials) for state in ("pruned", "failed")}
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    seconds = [trial.seconds for trial in result.trials if math.isfinite(trial.seconds)]
    facts = [
        *([("Date", date_of(result.info["started"]))] if "started" in result.info else []),
        ("Trials", f"{len(result.trials)}{f', {told}' if told else ''}"),
        ("Looked at", ", ".join(_directed(result))),
        *_asked(result.info),
        ("Trained for", duration(sum(seconds)) if seconds else DASH),
        ("Folder", str(result.path)),
    ]
    sections = [shown_section(section) for section in search_sections(result)]
    page = template("search.html.j2").render(
        name=result.name or "search", kind="Search", facts=facts, warnings=result.warnings, sections=sections,
        many_rows=_MANY, **made_with(result),
    )  # fmt: skip
    return str(page)


def search_sections(result: Any) -> list[Section]:
    """Return what the page shows: the best, the history, importances, slices, and all trials."""
    found = [_best(result), _history(result)]
    if len(result.metrics) == 2:
        found.append(_front(result))
    if shares := result.importance():
        found.append(_importance(shares))
    notes = ["Only scores of all folds are to be compared."] if _of_others(result) else []
    return [*found, _slices(result), Section("All trials", {}, [_table(result)], notes)]


def _asked(info: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Who proposes and gives up, how the data were divided, and the seed, as far as the folder of the search says."""
    search = info.get("search")
    if not isinstance(search, Mapping):
        return []
    n_splits, part = info.get("num_splits"), search.get("val_split")
    is_once = search.get("num_splits") is None and n_splits == 1
    kind = None if is_once else info.get("split_type")
    told = [f"{part} of the data held out" if is_once else str(n_splits or DASH), *([str(kind)] if kind else [])]
    told += [f"{part} of each training part for validation"] if part and not is_once else []
    return [
        ("Sampler", _named(search.get("sampler"))),
        ("Pruner", _named(search.get("pruner"))),
        ("Splits", ", ".join(told)),
        ("Cases", DASH if (n_cases := info.get("n_samples")) is None else str(n_cases)),
        ("Seed", DASH if (seed := info.get("seed")) is None else str(seed)),
    ]


def _named(stated: object) -> str:
    """Return the name of a sampler or a pruner; of an object, as the manifest writes it, that of its class."""
    if not isinstance(stated, Mapping):
        return "none" if stated is None else str(stated)
    names = [text for _, text in flat(stated) if ":" in text]
    return names[0].rpartition(":")[2] if names else DASH


def _directed(result: Any) -> list[str]:
    both = zip(result.metrics, result.are_maximised, strict=True)
    return [f"{name} ({'higher' if is_maximised else 'lower'} is better)" for name, is_maximised in both]


def _best(result: Any) -> Section:
    header = ["Trial", *result.metrics, *_names(result)]
    rows = [[str(trial.number), *trial.scores, *_values(result, trial)] for trial in result.best_trials]
    title = "The best trial" if len(result.metrics) == 1 else "Trials that no other one beats"
    notes = [] if rows else ["No trial has ended that breaks no constraint."]
    return Section(title, {}, [Table("best", header, rows)] if rows else [], notes)


def _names(result: Any) -> list[str]:
    return [*dict.fromkeys(name for trial in result.trials for name in trial.values)]


def _values(result: Any, trial: Any) -> list[Any]:
    return [_cell(trial.values[name]) if name in trial.values else DASH for name in _names(result)]


def _cell(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return str(value)
    return f"{value:.4g}" if isinstance(value, float) else value


def _table(result: Any) -> Table:
    header = ["Trial", "State", *result.metrics, "Score of", *_names(result), "Epochs", "Time"]
    rows = []
    for trial in result.trials:
        scores = trial.scores or [None] * len(result.metrics)
        seconds = Seconds(trial.seconds) if math.isfinite(trial.seconds) else None
        shown = [*scores, trial.score_of or DASH, *_values(result, trial)]
        rows.append([str(trial.number), trial.state, *shown, trial.epochs, seconds])
    return Table("trials", header, rows)


def _scored(result: Any, place: int) -> list[tuple[Any, float]]:
    return [(trial, trial.scores[place]) for trial in result.trials if len(trial.scores) > place]


def _draw(axes: "Axes", points: Sequence[tuple[Any, float, str]]) -> None:
    """Draw a dot for each trial that has finished, and a cross for others, whose scores are of something else."""
    for state, colour in _COLOURS.items():
        chosen = [(x, y) for x, y, its in points if its == state]
        if chosen:
            x, y = zip(*chosen, strict=True)
            marker, size = ("o", 3.5) if state == "finished" else ("x", 4)
            axes.plot(x, y, linestyle="none", marker=marker, markersize=size, color=colour, alpha=0.75, label=state)


def _history(result: Any) -> Section:
    figures: dict[str, Figure] = {}
    for place, (name, is_maximised) in enumerate(zip(result.metrics, result.are_maximised, strict=True)):
        figure, axes = plots.panel(width=6.4)
        scored = _scored(result, place)
        _draw(axes, [(trial.number, score, trial.state) for trial, score in scored])
        ended = [(trial.number, score) for trial, score in scored if trial.is_feasible]
        if ended:
            numbers, scores = zip(*ended, strict=True)
            best = (np.maximum if is_maximised else np.minimum).accumulate(scores)
            axes.step(numbers, best, where="post", color=plots.INK, linewidth=1.1)
        axes.set_xlabel("trial", fontsize=8.5, color=plots.MUTED)
        axes.set_title(name, fontsize=9)
        figures[f"history_{name}"] = figure
    notes = ["Each dot is a trial that has finished, the line the best so far.", *_of_others(result)]
    return Section("Scores by trial", figures, [], notes)


def _of_others(result: Any) -> list[str]:
    """Say what the scores of trials are that have not finished, if some have any."""
    if all(trial.state == "finished" for trial, _ in _scored(result, 0)):
        return []
    return [
        "Scores of trials that were given up (grey crosses) or failed (orange crosses) are of fewer data: of the last "
        "validation, or of the folds that were tested; the table of all trials says which. They say how a trial did "
        "against others at that time, and are not to be compared with those of all folds."
    ]


def _front(result: Any) -> Section:
    figure, axes = plots.panel(width=4.2, height=3.4)
    both = [trial for trial in result.trials if len(trial.scores) == 2 and trial.state == "finished"]
    _draw(axes, [(trial.scores[0], trial.scores[1], trial.state) for trial in both])
    front = sorted(trial.scores for trial in result.best_trials)
    if front:
        x, y = zip(*front, strict=True)
        axes.plot(x, y, color=plots.INK, linewidth=1.1, marker="o", markersize=4, markerfacecolor=plots.PAPER)
    axes.set_xlabel(result.metrics[0], fontsize=8.5, color=plots.MUTED)
    axes.set_ylabel(result.metrics[1], fontsize=8.5, color=plots.MUTED)
    return Section("What is gained for what", {"front": figure}, [], ["Circles: trials that no other one beats."])


def _importance(shares: dict[str, float]) -> Section:
    figure, axes = plots.panel(width=6.4, height=0.6 + 0.28 * len(shares))
    names = [*reversed(shares)]
    axes.barh(names, [shares[name] for name in names], color=plots.TRAINING, height=0.6)
    axes.set_xlim(0, 1)
    axes.tick_params(labelsize=8)
    notes = [
        "Share of the variance of the first metric between trials that each parameter explains by itself (functional "
        "analysis of variance over a random forest, fitted to the trials of this search: of values that were tried "
        "seldom it says little). Parameters that only some trials have are left out."
    ]
    return Section("What decides the score", {"importance": figure}, [], notes)


def _slices(result: Any) -> Section:
    figures: dict[str, Figure] = {}
    for name in _names(result):
        points = [
            (trial.values[name], score, trial.state) for trial, score in _scored(result, 0) if name in trial.values
        ]
        if not points:
            continue
        figure, axes = plots.panel()
        numeric = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x, *_ in points)
        _draw(axes, points if numeric else [(str(x), y, state) for x, y, state in points])
        xs = [float(x) for x, *_ in points] if numeric else []
        if xs and min(xs) > 0 and max(xs) / min(xs) >= plots.LOG_RANGE:
            axes.set_xscale("log")
        axes.tick_params(labelsize=8)
        axes.set_title(name, fontsize=8.5)
        figures[f"slice_{name}"] = figure
    notes = [f"{result.metrics[0]} over each parameter by itself; what is near each other may differ in all others."]
    notes += ["Crosses: trials that have not finished."] if _of_others(result) else []
    return Section("Each parameter", figures, [], notes)
