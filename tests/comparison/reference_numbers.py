"""What other programs say of the same numbers: it is written down in references/, and asked again where it can be."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent / "references"
INPUTS = {name: np.array(values) for name, values in json.loads((FOLDER / "inputs.json").read_text()).items()}
with open(FOLDER / "references_of_r.csv") as file:
    OF_R = {row["name"]: float(row["value"]) for row in csv.DictReader(file.read().splitlines()[1:])}
OF_PYTHON = json.loads((FOLDER / "references_of_python.json").read_text())


def asked_again(package: str):
    """What a package says today; skips where it is not installed."""
    pytest.importorskip(package.replace("-", "_"), reason=f"it is compared with the package {package!r}")
    sys.path.insert(0, str(FOLDER))
    try:
        import references_of_python
    finally:
        sys.path.remove(str(FOLDER))
    return references_of_python.ASK[package]()


def roc_set(name: str):
    """Labels and two scores of one of the sets that R was given."""
    with open(FOLDER / "scores.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["set"] == name]
    return (np.array([float(row[key]) for row in rows]) for key in ("label", "first", "second"))
