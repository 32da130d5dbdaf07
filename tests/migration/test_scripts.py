"""Scripts in the spelling of the older libraries run, and give the numbers that they compute by themselves."""

import re
import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
#: what scripts need besides numpy and scikit-learn, and what shows it
PACKAGES = {
    **{name: rf"^(import|from) {name}\b" for name in ("torch", "tensorflow", "keras", "flax", "pandas", "skimage")},
    "skops": r"\bSklearnExperiment\b",
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_old_script_runs(script, tmp_path, monkeypatch):
    text = script.read_text(encoding="utf-8")
    for package, sign in PACKAGES.items():
        if re.search(sign, text, re.MULTILINE):
            pytest.importorskip(package, reason=f"the script needs the package {package!r}")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
