"""``delira report``: the page of a run, of several side by side, and files of every table and plot."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from delira.cli.output import Answer, wrapped
from delira.errors import ConfigError
from delira.experiments.result import KFoldResult
from delira.logging.image_files import file_name
from delira.utils.suggest import did_you_mean

FORMATS = ("csv", "tex", "png", "svg", "pdf")


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
    results = [KFoldResult.load(run) for run in runs]
    page = _write_page(results, output)
    files = _export(results, export, kinds)
    found = [_describe(result) for result in results]
    lines = [f"{entry['name']}: {problem}" for entry in found for problem in entry["problems"]]
    text = "\n".join([*(wrapped(line) for line in lines), *map(str, files), f"report  {page}"])
    return Answer({"report": str(page), "files": [str(path) for path in files], "runs": found}, text)


def _write_page(results: Sequence[KFoldResult], output: str | Path | None) -> Path:
    if len(results) > 1:
        from delira.report import runs_page

        path = Path(output or "runs.html")
        runs_page(results, path)
        return path
    (result,) = results
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


def _export(results: Sequence[KFoldResult], folder: str | Path | None, kinds: Sequence[str]) -> list[Path]:
    if folder is None:
        return []
    if len(results) == 1:
        return list(results[0].export(folder, formats=kinds))
    from delira.report import run_names

    owns = [Path(folder) / file_name(name) for name in run_names(results)]
    return [path for result, own in zip(results, owns, strict=True) for path in result.export(own, formats=kinds)]


def _describe(result: KFoldResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "path": str(result.path),
        "folds": [fold.fold for fold in result.folds],
        "unfinished": [fold.fold for fold in result.unfinished],
        "summary": result.summary(),
        "problems": list(result.problems),
    }
