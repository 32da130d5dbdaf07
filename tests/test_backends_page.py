"""Every block of docs/backends.md runs, in one process with all the frameworks that it uses."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "backends.md").read_text(encoding="utf-8")
PACKAGES = {
    "PyTorch": ["torch"],
    "TorchScript": ["torch"],
    "TensorFlow": ["tensorflow"],
    "JAX": ["jax"],
    "scikit-learn": ["skops"],
    "Ready networks": ["torch"],
    "From one backend to another": ["torch", "jax"],
}
SETUP, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
CODE = {section.split("\n", 1)[0]: re.findall(r"^```python\n(.*?)^```", section, re.M | re.S) for section in SECTIONS}


def run(blocks, title, names, folder):
    for number, block in enumerate(blocks):
        file = folder / f"{title.split()[0].lower().replace('-', '_')}_{number}.py"  # TorchScript reads its source
        file.write_text(block, encoding="utf-8")
        exec(compile(block, file, "exec"), names)


@pytest.mark.slow_cases("^(TensorFlow|JAX|From)")
@pytest.mark.parametrize("title", [title for title, blocks in CODE.items() if blocks])
def test_a_section_runs(title, tmp_path, monkeypatch):
    for package in PACKAGES[title]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "backends_page"}
    run(re.findall(r"^```python\n(.*?)^```", SETUP, re.M | re.S), "setup", names, tmp_path)
    if title == "From one backend to another":
        for needed in ("PyTorch", "JAX"):
            run(CODE[needed], needed, names, tmp_path)
    run(CODE[title], title, names, tmp_path)
    if "result" in names:
        assert names["result"].summary()["accuracy"]["mean"] > 0.5
