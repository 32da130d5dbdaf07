"""Every block of docs/scale.md runs; those for a cluster on one of this machine."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the page's network is one of PyTorch")

PAGE = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
HERE = [block for block in BLOCKS if "import RayExecutor" not in block and "import SlurmExecutor" not in block]
NEEDS = 'resources={"cpus": 4, "gpus": 1}'


def run(*blocks):
    names = {"__name__": "scale_page"}
    for block in blocks:
        exec(compile(block, "docs/scale.md", "exec"), names)
    return names


def on_a_cluster(name, *changes):
    """Run the page's block for a cluster, changed to one of this machine; the folds there, and those here."""
    (block,) = (block for block in BLOCKS if f"import {name}" in block)
    for old, new in (*changes, (NEEDS, "random_seed=0")):
        assert block.count(old) == 1
        block = block.replace(old, new)
    # what came before is finished, and a call that resumes would find it
    names = run(BLOCKS[0], block.replace('resume="auto"', "resume=None").replace("num_splits=20", "num_splits=4"))
    alone = names["experiment"].kfold(names["data"], num_splits=4, random_seed=0)
    return names["result"], alone


def test_the_blocks_run(tmp_path, monkeypatch):
    pytest.importorskip("fsspec", reason="mirrors need fsspec, see requirements/remote.txt")
    monkeypatch.chdir(tmp_path)
    assert run(*(block for block in HERE if '"devices"' not in block))["joined"].folds


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_block_of_several_devices_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = [block for block in HERE if '"devices"' in block]
    assert len(run(BLOCKS[0], *blocks)["shared"].folds) == 2


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_the_block_for_ray_gives_the_same_bits(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="needs Ray, see requirements/ray.txt")
    monkeypatch.chdir(tmp_path)
    found, alone = on_a_cluster("RayExecutor", ('RayExecutor("192.0.2.1:6379")', "RayExecutor(n_jobs=2)"))
    assert [fold.means() for fold in found.folds] == [fold.means() for fold in alone.folds]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_the_block_for_slurm_gives_the_same_bits(tmp_path, monkeypatch):
    pytest.importorskip("submitit", reason="needs submitit, see requirements/slurm.txt")
    monkeypatch.chdir(tmp_path)
    found, alone = on_a_cluster(
        "SlurmExecutor", ('options={"partition": "gpu", "mem": "16GB"}', 'cluster="local"'), ("n_jobs=8", "n_jobs=2")
    )
    assert [fold.means() for fold in found.folds] == [fold.means() for fold in alone.folds]
