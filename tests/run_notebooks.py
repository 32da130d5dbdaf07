"""Run notebooks and write what they show into them, without times and whatever else changes by itself.

``python tests/run_notebooks.py notebooks/*.ipynb`` (``make notebooks``). Each runs in a folder of its own, beside which
lie the examples, as in a checkout.
"""

import sys
import tempfile
import time
from pathlib import Path

import nbclient
import nbformat

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def run(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder, "notebooks")
        own.mkdir()
        Path(folder, "examples").symlink_to(Path(__file__).resolve().parents[1] / "examples")
        resources = {"metadata": {"path": str(own)}}
        nbclient.NotebookClient(notebook, timeout=600, record_timing=False, resources=resources).execute()
    notebook.metadata = METADATA
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
    path.write_text(nbformat.writes(notebook).rstrip("\n") + "\n", encoding="utf-8")


def joined(outputs: list) -> list:
    """Text that came in several pieces is one output: how it was divided depends on the machine's load."""
    whole: list = []
    for output in outputs:
        is_text = output.output_type == "stream"
        if is_text and whole and whole[-1].output_type == "stream" and whole[-1].name == output.name:
            whole[-1].text += output.text
        else:
            whole.append(output)
    return whole


if __name__ == "__main__":
    for name in sys.argv[1:]:
        start = time.perf_counter()
        run(Path(name))
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
