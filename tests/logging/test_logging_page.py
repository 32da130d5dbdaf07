"""Every block of docs/logging.md runs, one after the other, and its tables are complete."""

import importlib.util
import re
import warnings
from pathlib import Path

import pytest

from delira import logging as own
from delira.logging.messages import KINDS
from delira.logging.targets import TARGETS

PAGE = (Path(__file__).parents[2] / "docs" / "logging.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_blocks_run(tmp_path, monkeypatch):
    for package in ("torch", "tensorboardX", "PIL"):
        pytest.importorskip(package, reason=f"the page's examples need the package {package!r}, which is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "false")  # the page sets it, and no other test is to see that
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    names = {"__name__": "logging_page"}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        with warnings.catch_warnings():
            if "mlflow" in block:
                warnings.simplefilter("ignore")  # MLflow warns while it is imported, and of what it writes
            exec(compile(block, "docs/logging.md", "exec"), names)
    if importlib.util.find_spec("mlflow"):
        assert [path.read_text().split()[1] for path in tmp_path.glob("mlruns/*/*/metrics/ce")], "no run of MLflow"


def test_every_kind_target_and_handler_is_named():
    assert not [kind for kind in KINDS if f"`{kind}`" not in PAGE]
    assert not [name for name in TARGETS if f'`"{name}"`' not in PAGE]
    handlers = {name for name in own.__all__ if name.endswith("Handler")} - {"MultistreamHandler"}
    assert not [name for name in handlers if name not in PAGE]
