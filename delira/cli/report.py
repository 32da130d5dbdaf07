"""``delira report``: the page of a run, of several side by side, and files of every table and plot."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from delira.cli.output import Answer, wrapped
from delira.errors import ConfigError, did_you_mean
from delira.experiments.learning_curve import LearningCurve
from delira.experiments.result import KFoldResult
from delira.experiments.search_result import SearchResult
from delira.logging.handlers import file_name
from delira.report import run_names, runs_page
from delira.runs.stored_run import read_run

FORMATS = ("csv", "tex", "png", "svg", "pdf")


def run(options: argparse.Namespace) -> Answer:
    """Write the page of the runs that were named."""
    return write_report(options.run_folders, options.output, options.export, options.formats)


def write_report(
    runs: Sequence[str | Path], output: str | Path | None = None, export: str | Path | None = None, formats: str = ""
) -> Answer:
    """Read runs and write their page.

    Parameters
    ----------
    runs
        Their folders.
    output
        The file; ``report/report.html`` of the run if ``None``, of several ``runs.html`` here.
    export
        Folder for files of each table and plot, of several runs a folder for each.
    formats
        Kinds of these files, with commas between.

    Raises
    ------
    ConfigError
        If there is no run, or no such format.
    """
    kinds = [kind.strip().lower() for kind in formats.split(",") if kind.strip()]
    for kind in kinds:
        if kind not in FORMATS:
            raise ConfigError(f"there is no format {kind!r}{did_you_mean(kind, FORMATS)}")
    kind = read_run(runs[0]).kind if len(runs) == 1 else "kfold"
    if kind == "tune":
        return _of_search(SearchResult.load(runs[0]), output, export)
    if kind == "learning_curve":
        return _of_curve(LearningCurve.load(runs[0]), output, export)
    results = [KFoldResult.load(run) for run in runs]
    page = _write_page(results, output)
    files: list[Path] = []
    if export is not None:
        owns = [Path(export) / file_name(name) for name in run_names(results)] if len(results) > 1 else [Path(export)]
        for result, own in zip(results, owns, strict=True):
            files += result.export(own, formats=kinds)
    found = [
        {
            "name": result.name,
            "path": str(result.path),
            "folds": [fold.fold for fold in result.folds],
            "unfinished": [fold.fold for fold in result.unfinished],
            "summary": result.summary(),
            "problems": list(result.problems),
        }
        for result in results
    ]
    lines = [wrapped(f"{result.name}: {problem}") for result in results for problem in result.problems]
    text = "\n".join([*lines, *map(str, files), f"report  {page}"])
    return Answer({"report": str(page), "files": [str(path) for path in files], "runs": found}, text)


def _of_search(result: SearchResult, output: str | Path | None, export: str | Path | None) -> Answer:
    """Write the page of a search."""
    page = _written(result, output)
    pictures = [*result.plot(export)] if export is not None else []
    found = {"report": str(page), "files": pictures, "best": [trial.number for trial in result.best_trials]}
    return Answer(found, f"report  {page}")


def _of_curve(curve: LearningCurve, output: str | Path | None, export: str | Path | None) -> Answer:
    """Write the page of a learning curve."""
    page, pictures = _written(curve, output), []
    if export is not None:
        pictures = [str(Path(export) / "learning_curve.png")]
        curve.plot(pictures[0])
    return Answer({"report": str(page), "files": pictures, "sizes": [*curve.points]}, f"report  {page}")


def _write_page(results: Sequence[KFoldResult], output: str | Path | None) -> Path:
    if len(results) > 1:
        return Path(runs_page(results, Path(output or "runs.html")))
    (result,) = results
    return _written(result, output)


def _written(result: KFoldResult | SearchResult | LearningCurve, output: str | Path | None) -> Path:
    path = Path(output) if output else Path(result.path or ".") / "report" / "report.html"
    if not output and path.parent.is_symlink():
        raise ConfigError(
            f"{path.parent} is a link to {os.readlink(path.parent)!r}, out of the folder of the run, and nothing is "
            "written there; name a file with -o"
        )
    try:
        result.to_html(path)
    except OSError as error:
        raise ConfigError(f"the page cannot be written: {error}; name another file with -o") from error
    return path
