"""What each fold may use, by who runs it; and what is refused because nobody has it."""

from types import SimpleNamespace

import pytest
from small_backends import build_kit, toy_kit

from delira import execution
from delira.errors import ConfigError
from delira.execution import Executor, ProcessExecutor, Resources, SlurmExecutor
from delira.experiments.placement import Placement


class Cluster(Executor):
    """Has as many GPUs as it is told, if anybody knows."""

    def __init__(self, n_gpus):
        self.found = n_gpus

    def submit(self, task, resources):
        raise AssertionError

    def shutdown(self):
        pass

    def n_gpus(self):
        return self.found


def needs(executor, device="auto", n_processes=1, **placement):
    return Placement(executor=executor, **placement).needs(2, device, n_processes, executor)


def test_gpus_are_those_of_who_runs_the_folds_not_of_the_machine_that_hands_them_out(monkeypatch, caplog):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    for device in ("auto", "cuda", "GPU", "/device:GPU"):
        assert needs(Cluster(0), device) == Resources(cpus=2, gpus=0)
        assert needs(Cluster(3), device) == Resources(cpus=2, gpus=1)
    assert needs(Cluster(3), "cuda:0").gpus == needs(Cluster(3), None).gpus == needs(Cluster(3), "cpu").gpus == 0
    assert needs(Cluster(3), None, 2) == Resources(cpus=4, gpus=2)
    assert needs(Cluster(None), "cuda").gpus == 1
    assert not caplog.text
    assert needs(Cluster(None)).gpus == 0
    assert "device='auto': nobody here knows what GPUs there are" in caplog.text
    assert "say resources={'gpus': 1}" in caplog.text
    assert needs(Cluster(None), resources={"gpus": 2}) == Resources(cpus=2, gpus=2)
    with ProcessExecutor(1, gpus=[]) as processes:
        assert needs(processes).gpus == 0
    with ProcessExecutor(1) as processes:
        assert needs(processes).gpus == 1


def test_a_device_of_pytorch_is_the_device_that_its_text_names(monkeypatch):
    torch = pytest.importorskip("torch", reason="is about torch.device")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert [needs(Cluster(2), torch.device(name)).gpus for name in ("cuda", "cuda:0", "cpu")] == [1, 0, 0]


def test_a_part_of_a_gpu_says_nothing_of_threads():
    own = SimpleNamespace(devices=SimpleNamespace(in_processes=False, thread_count=lambda: 8))
    shared = Placement(n_jobs=2, resources={"gpus": 0.5})
    assert shared.threads(None, own, 2) == Placement(n_jobs=2).threads(None, own, 2)
    assert Placement(n_jobs=2, resources={"cpus": 3, "gpus": 0.5}).threads(None, own, 2) == 3


def test_what_resources_do_not_say_is_chosen_however_they_are_said():
    own = SimpleNamespace(devices=SimpleNamespace(in_processes=False, thread_count=lambda: 8))
    for resources in ({"cpus": 3}, Resources(cpus=3)):
        assert needs(Cluster(3), "cuda", resources=resources) == Resources(cpus=3, gpus=1)
    for resources in ({"gpus": 1}, Resources(gpus=1)):
        assert needs(Cluster(3), "cuda", resources=resources) == Resources(cpus=2, gpus=1)
        assert Placement(n_jobs=2, resources=resources).threads(None, own, 2) == 4
    for resources in ({}, Resources()):
        assert needs(Cluster(3), "cuda", resources=resources) == Resources(cpus=2, gpus=1)
    assert needs(Cluster(3), "cuda", resources=Resources(cpus=1, gpus=0)) == Resources(cpus=1, gpus=0)
    with pytest.raises(ConfigError, match="cpus"):
        Resources(cpus=0)
    with ProcessExecutor(1, gpus=[]) as processes:  # tasks of one's own
        assert processes.submit(int, Resources()).result() == 0


def test_a_cluster_of_ray_decides_how_many_folds_run_at_once(monkeypatch, tmp_path):
    asked = []

    class Ray(Cluster):
        def __init__(self, address=None, *, n_jobs=None):
            super().__init__(0)
            asked.append(n_jobs)

    monkeypatch.setattr(execution, "RayExecutor", Ray)
    for n_jobs in (None, -1, 3):
        with Placement(executor="ray", n_jobs=n_jobs).opened(20, tmp_path):
            pass
    assert asked == [None, -1, 3]


def test_resources_hold_here_too(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    backend = build_kit("torch").backend
    assert Placement(resources={"cpus": 3}).threads(None, backend, 2) == 3
    assert Placement(resources=Resources(cpus=3)).threads(None, backend, 2) == 3
    assert Placement().threads(None, backend, 2) == backend.devices.thread_count()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    Placement(resources={"gpus": 1}).threads(None, backend, 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for gpus in (0.5, 3):
        with pytest.raises(ConfigError, match=f"resources asks for {gpus:g} GPUs, and 0 can be seen here; ask for as"):
            Placement(resources={"gpus": gpus}).threads(None, toy_kit().backend, 2)


def test_what_a_machine_lacks_is_said_with_a_cure(caplog):
    with ProcessExecutor(1, gpus=[]) as processes:
        with pytest.raises(ConfigError, match=r"needs 3 GPUs, and 0 can be seen here; ask for as many in resources="):
            processes.submit(int, Resources(gpus=3))
        for _ in range(2):
            assert processes.submit(int, Resources(cpus=4096)).result() == 0
    assert caplog.text.count("a task asks for 4096 cores, and this machine has") == 1


def test_options_of_slurm_that_resources_decide_are_refused(tmp_path):
    pytest.importorskip("submitit", reason="needs submitit, see requirements/slurm.txt")
    options = {"gpus_per_node": 2, "cpus_per_task": 8}
    with pytest.raises(ConfigError, match=r"say resources=\{'cpus': 8, 'gpus': 2\} where the executor is used"):
        SlurmExecutor(tmp_path, options=options, cluster="local")
