"""The examples run and do what they say, and so does every block of docs/how_to.md."""

import csv
import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from delira.data_loading import RemoteSettings, WorkerSettings, sampler
from delira.experiments.splits import SplitConfig
from delira.settings import config
from delira.settings.signatures import settings_signature

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py"))
PAGES = {name: (ROOT / "docs" / name).read_text() for name in ("how_to.md", "data.md", "nothing_lost.md")}
HOW_TO = PAGES["how_to.md"]


def sections_of(page: str) -> list[str]:
    """The setup, which has no title, and the sections."""
    return re.split(r"^## ", PAGES[page], flags=re.MULTILINE)


def code_of(section: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)


def table_of(title: str, page: str = "how_to.md") -> dict[str, str]:
    """Setting -> default, as the table of a section has them."""
    (section,) = (section for section in sections_of(page) if section.startswith(title + "\n"))
    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \| \S.* \|$", section, flags=re.MULTILINE)
    assert len(dict(rows)) == len(rows), "a setting is listed twice"
    assert len(rows) == section.count("\n| `"), "a row is not of the form | `name` | `default` | meaning |"
    return dict(rows)


def run_example(name: str, folder: Path, *options: str, limit: float = 110) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error::UserWarning", str(ROOT / "examples" / name), *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# ---- examples


@pytest.mark.slow
def test_the_digits_are_cross_validated(tmp_path):
    printed = run_example("digits_kfold.py", tmp_path)
    assert "digits: 5 folds, 1,797 cases, seed 0" in printed
    (run,) = (tmp_path / "runs" / "digits").iterdir()
    assert {path.name for path in (run / "report").iterdir()} == {"examples.npz", "learning_curves.png", "report.html"}


@pytest.mark.slow
@pytest.mark.timeout(1000)  # a hundred seconds on two cores, four times as long on a slow day
@pytest.mark.parametrize("backend", ["torch", "tensorflow"])
def test_scans_are_segmented_from_files_to_predictions_and_no_patient_is_on_two_sides(backend, tmp_path):
    nibabel = pytest.importorskip("nibabel")
    np = pytest.importorskip("numpy")
    pytest.importorskip(backend)
    printed = run_example("segmentation_by_patient.py", tmp_path, "--backend", backend, limit=900)
    assert "scans: 3 folds, 24 cases, seed 0" in printed
    assert "2,000 draws of the 12 groups" in printed
    assert float(re.search(r"^dice\s+(\d\.\d+) ±", printed, re.MULTILINE)[1]) > 0.75
    assert float(re.search(r"^organ\s+(\d\.\d+) +\[", printed, re.MULTILINE)[1]) > 0.9
    scans = tmp_path / "runs" / "scans"
    (run,) = (path for path in scans.iterdir() if path.name not in ("cases", "new"))
    cases = sorted((scans / "cases").iterdir())
    tested = [np.load(path)["indices"] for path in sorted(run.glob("fold_*/predictions.npz"))]
    assert sorted(np.concatenate(tested)) == list(range(len(cases))) == list(range(24))
    by_fold = [{cases[index].name[:10] for index in indices} for indices in tested]  # "patient_07"
    assert sum(map(len, by_fold)) == len(set.union(*by_fold)) == 12
    assert (run / "report" / "report.html").stat().st_size > 10_000
    assert "predicted  3\nfound      0\n" in printed, "the command, too"
    for file in sorted((scans / "new").iterdir()):
        assert np.array_equal(nibabel.load(run / "new_by_fold_0" / file.name).affine, nibabel.load(file).affine)
        image, labels = nibabel.load(file), nibabel.load(run / "new" / file.name)
        assert np.array_equal(labels.affine, image.affine)
        assert labels.shape == image.shape
        assert {*np.unique(labels.dataobj).tolist()} == {0, 1, 2}
        assert (run / "new" / "spread.pred.entropy" / file.name).is_file()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_settings_are_searched_in_each_fold_and_methods_compared(tmp_path):
    for package in ("optuna", "skops"):
        pytest.importorskip(package)
    printed = run_example("search_and_compare.py", tmp_path, "--trials", "2", limit=500)
    assert "digits: 6 trials" in printed
    assert printed.count("Chosen by each fold's own search:") == 3
    assert "linear, perceptron and forest: 5 folds, 569 cases" in printed
    for page in ("digits.html", "cancer.html"):
        assert (tmp_path / "runs" / "search" / page).stat().st_size > 10_000


@pytest.mark.slow
def test_the_gan_trains_both_of_its_networks(tmp_path):
    from matplotlib.image import imread

    printed = run_example("gan_with_two_optimizers.py", tmp_path)
    picture = tmp_path / re.search(r"^generated digits\s+(\S+)$", printed, re.MULTILINE)[1]
    ink = 1 - imread(picture)[..., 0]
    assert ink.shape == (5 * 60, 16 * 60)
    assert 0.1 < ink.mean() < 0.35  # that of the digits in their margins is 0.2
    assert ink.std() > 0.25  # black and white, not the grey of an untrained generator
    history = list(csv.DictReader((picture.parent / "history.csv").read_text().splitlines()))
    assert len(history) == 80
    assert {"discr", "gen", "lr_gen", "lr_discr"} <= history[0].keys()


@pytest.mark.slow
def test_the_resumed_run_equals_the_unbroken_one(tmp_path):
    printed = run_example("resume_and_callbacks.py", tmp_path)
    assert "broken off in epoch 5" in printed
    assert "equal those of the unbroken run, bit for bit" in printed
    unbroken, resumed = sorted((tmp_path / "runs" / "resume").iterdir())
    events = [json.loads(line)["event"] for line in (resumed / "ledger.jsonl").read_text().splitlines()]
    assert events == ["started", "broken_off", "resumed", "finished"]
    history = [path / "fold_00" / "history.csv" for path in (unbroken, resumed)]
    assert history[0].read_bytes() == history[1].read_bytes()


def test_every_example_is_listed_and_short():
    readme = (ROOT / "examples" / "README.md").read_text()
    for path in EXAMPLES:
        assert f"({path.name})" in readme, path.name
        has_two_parts = path.stem in ("segmentation_by_patient", "search_and_compare")
        assert len(path.read_text().splitlines()) <= (120 if has_two_parts else 90), path.name


@pytest.mark.slow
def test_the_segmentation_says_what_to_install_if_nibabel_is_missing(tmp_path):
    (tmp_path / "nibabel.py").write_text("raise ModuleNotFoundError('nibabel')")
    command = [sys.executable, str(ROOT / "examples" / "segmentation_by_patient.py")]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 1
    assert done.stderr == "This example needs a package that reads NIfTI files: pip install delira[medical]\n"


# ---- how to


RECIPES = [
    pytest.param(page, section, id=section.partition("\n")[0])
    for page in PAGES
    for section in sections_of(page)[1:]
    if code_of(section)
]


@pytest.mark.slow_cases("baselines|Export|keras.applications")
@pytest.mark.parametrize(("page", "section"), RECIPES)
def test_a_recipe_runs(page, section, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    blocks = [*code_of(sections_of(page)[0]), *code_of(section)]
    for package in re.findall(r"^(?:from|import) (\w+)", "\n".join(blocks), flags=re.MULTILINE):
        pytest.importorskip(package)
    for sign, package in (("SklearnExperiment", "skops"), (".onnx", "onnxscript")):
        if sign in section:
            pytest.importorskip(package)
    names = {"__name__": "how_to"}
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)  # so that it is given back
    cudnn = torch.backends.cudnn
    before = torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark
    try:
        for block in blocks:
            exec(compile(block, f"docs/{page}", "exec"), names)
    finally:
        torch.use_deterministic_algorithms(before[0])
        cudnn.deterministic, cudnn.benchmark = before[1:]


@pytest.mark.parametrize("page", PAGES)
def test_every_recipe_is_short(page):
    blocks = code_of(PAGES[page])
    assert len(blocks) == PAGES[page].count("```python")
    assert [block for block in blocks if len(block.splitlines()) > 12] == []


def test_the_table_of_worker_settings_has_every_one_with_its_default():
    defaults = {field.name: repr(field.default) for field in dataclasses.fields(WorkerSettings)}
    assert table_of("Workers", "data.md") == defaults


def test_the_table_of_settings_of_data_elsewhere_has_every_one_with_its_default():
    made = RemoteSettings()
    defaults = {field.name: repr(getattr(made, field.name)) for field in dataclasses.fields(RemoteSettings)}
    assert table_of("Data elsewhere", "data.md") == defaults


@pytest.mark.parametrize("sampler", [name for name in sampler.__all__ if name != "AbstractSampler"])
def test_every_sampler_is_on_the_page_of_the_data(sampler):
    others = {"BatchSampler", "RandomSamplerNoReplacement", "RandomSamplerWithReplacement"}  # spellings, a tool
    assert f"`{sampler}`" in PAGES["data.md"] or sampler in others


def test_the_table_of_settings_has_every_one_with_its_default():
    signature = settings_signature()
    assert {*signature.parameters} == {*config.PLAIN, *config.PARTS}
    defaults = {name: repr(parameter.default) for name, parameter in signature.parameters.items()}
    assert table_of("Settings of the training") == defaults


def test_the_older_spellings_are_those_that_work():
    _, _, named = HOW_TO.partition("Older spellings that still work:")
    assert re.findall(r"`(\w+)`", named.partition(".")[0]) == [*config._ALIASES]


def test_the_table_of_splits_has_every_one_with_its_default():
    defaults = {field.name: repr(field.default) for field in dataclasses.fields(SplitConfig)}
    assert table_of("Settings of the splits") == defaults


@pytest.mark.parametrize(
    "page", [*sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")), "examples/README.md"]
)
def test_every_link_leads_somewhere(page):
    """What ``make docs`` makes is not there: the build itself refuses dead links into it."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert links or page != "docs/how_to.md"
    for link in links:
        is_made = link.startswith(("api/", "tutorials/", "project/"))
        assert is_made or "://" in link or ((ROOT / page).parent / link).exists(), link
