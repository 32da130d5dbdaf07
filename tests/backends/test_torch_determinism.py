"""PyTorch's deterministic algorithms: switched on for a while, and what is said of an operation that has none."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from delira.backends.torch.backend import BACKEND  # noqa: E402

deterministic, explain = BACKEND.devices.deterministic, BACKEND.step.explain

#: of PyTorch, which no CPU raises
CUBLAS = (
    "Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` or "
    "`at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic because it uses CuBLAS "
    "and you have CUDA >= 10.2. To enable deterministic behavior in this case, you must set an environment variable "
    "before running your PyTorch application: CUBLAS_WORKSPACE_CONFIG=:4096:8 or CUBLAS_WORKSPACE_CONFIG=:16:8."
)


class Putting(torch.nn.Module):
    """Uses an operation that has no deterministic implementation, on the CPU either."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    def forward(self, x):
        pred = self.linear(x)
        return pred.put(torch.tensor([0, 0]), pred.detach().flatten()[:2])


def settings():
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
        os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
    )


@pytest.fixture(autouse=True)
def untouched(monkeypatch):
    """Every test must leave PyTorch as it found it."""
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    before = settings()
    yield
    assert settings() == before


def train_once(network):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    network(torch.ones(4, 3)).pow(2).mean().backward()
    optimizer.step()


def test_an_operation_without_deterministic_algorithm_is_named():
    network = Putting()
    train_once(network)
    with deterministic(), pytest.raises(RuntimeError, match="deterministic implementation") as caught:
        train_once(network)
    note = explain(caught.value)
    assert note.startswith("PyTorch has no deterministic put_ on this device: replace it in the network")
    assert "deterministic=False" in note
    train_once(network)


def test_a_network_without_such_an_operation_trains_to_the_same_bits():
    weights = []
    for _ in range(2):
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Conv1d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4, 1))
        with deterministic():
            for _ in range(3):
                network(torch.ones(4, 1, 3)).pow(2).mean().backward()
        weights.append([parameter.grad for parameter in network.parameters()])
    assert all(torch.equal(first, second) for first, second in zip(*weights, strict=True))


def test_all_settings_are_on_inside_and_restored_after():
    torch.backends.cudnn.benchmark = True
    try:
        before = settings()
        with deterministic():
            assert settings() == (True, False, True, False, ":4096:8")
        assert settings() == before
    finally:
        torch.backends.cudnn.benchmark = False


def test_all_settings_are_restored_after_an_error():
    before = settings()
    with pytest.raises(ValueError, match="on purpose"), deterministic():
        raise ValueError("on purpose")
    assert settings() == before


def test_what_was_on_before_stays_on():
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with deterministic():
            assert not torch.is_deterministic_algorithms_warn_only_enabled()
            with deterministic():
                pass
            assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(("given", "inside"), [(":16:8", ":16:8"), (":4096:8", ":4096:8"), (":0:0", ":4096:8")])
def test_a_workspace_that_was_chosen_is_kept_if_it_is_deterministic(given, inside, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("CUBLAS_WORKSPACE_CONFIG", given)
        with deterministic():
            assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == inside
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == given


def test_it_is_said_when_it_is_too_late_for_cublas(monkeypatch, caplog):
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_initialized", lambda: True)  # no GPU here
        with deterministic():
            assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    (line,) = caplog.messages
    assert line.startswith("CUDA is in use already, so it is too late for CUBLAS_WORKSPACE_CONFIG=:4096:8")


def test_the_error_of_cublas_is_explained():
    assert explain(RuntimeError(CUBLAS)).startswith("set CUBLAS_WORKSPACE_CONFIG=:4096:8 in the environment before")


@pytest.mark.parametrize("error", [RuntimeError("mat1 and mat2 shapes"), ValueError(), KeyError("deterministic")])
def test_other_errors_are_not_explained(error):
    assert explain(error) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_matrices_are_multiplied_deterministically_on_a_gpu():
    code = (
        "import torch\nfrom delira.backends.torch.backend import BACKEND\n"
        "with BACKEND.devices.deterministic():\n"
        "    print(torch.ones(2, 2, device='cuda').mm(torch.ones(2, 2, device='cuda')).sum().item())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "8.0"
