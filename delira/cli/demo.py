"""``delira demo``: the starter project of the first backend that is installed, run here and now."""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from delira.cli import new, output
from delira.errors import DeliraError, MissingBackendError
from delira.experiments.result import KFoldResult
from delira.frameworks import PACKAGES, PREFERRED
from delira.utils.files import writable_folder

_NAME = "digits"


def run(options: argparse.Namespace) -> output.Answer:
    """Cross-validate a network on handwritten digits; the run is in ``runs/digits``, the page is ``report.html``.

    Parameters
    ----------
    options
        ``backend``: its name, or None for the first that is installed; ``json``: nothing is printed of the training.

    Raises
    ------
    MissingBackendError
        If the backend, or every one, is not installed.
    DeliraError
        If the training fails.
    """
    backend = options.backend or next((name for name in PREFERRED if not _missing(name)), None)
    if backend is None:
        raise MissingBackendError("the demo needs a backend, and none is installed: pip install 'delira[torch]'")
    if missing := _missing(backend):
        raise MissingBackendError(
            f"the demo needs the package {missing[0]!r}, which is not installed: pip install 'delira[{backend}]'"
        )
    writable_folder(Path("runs"))
    with tempfile.TemporaryDirectory(prefix="delira-demo-") as folder:
        for file, text in new.render(_NAME, backend, "classification").items():
            (Path(folder) / file).write_text(text, encoding="utf-8")
        # the script is a process of its own: frameworks and workers are as in any script of a user
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, str(Path(folder) / "train.py")]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.DEVNULL if options.json else None, check=False
        )
    if done.returncode:
        raise DeliraError(f"the demo ended with exit code {done.returncode}; 'delira doctor' says what does not work")
    result = KFoldResult.load(Path("runs") / _NAME)
    page = result.to_html("report.html")
    content = {"backend": backend, "run": str(result.path), "report": str(page), "summary": result.summary()}
    return output.Answer(
        content, f"run     {result.path}\npage    {page}\nnext    delira new my_project --backend {backend}"
    )


def _missing(backend: str) -> list[str]:
    """Packages of a backend that are not installed."""
    return [package for package in PACKAGES[backend] if importlib.util.find_spec(package) is None]
