"""Running out of memory, and giving it back."""

import gc
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from delira.backends.torch.backend import BACKEND  # noqa: E402

free_memory, is_out_of_memory = BACKEND.devices.free_memory, BACKEND.devices.is_out_of_memory


@pytest.mark.parametrize("allocate", [lambda: torch.empty(2**58), lambda: np.zeros(2**58)], ids=["torch", "numpy"])
def test_an_allocation_that_is_too_large_is_out_of_memory(allocate):
    with pytest.raises((RuntimeError, MemoryError)) as caught:
        allocate()
    assert is_out_of_memory(caught.value)


def test_the_errors_of_a_gpu_are_out_of_memory():
    """Texts of PyTorch, CUDA and cuBLAS."""
    assert is_out_of_memory(torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    assert is_out_of_memory(RuntimeError("CUDA error: out of memory"))
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))


@pytest.mark.parametrize(
    "error", [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ValueError("out of memory"), KeyError("x")]
)
def test_other_errors_are_not(error):
    assert not is_out_of_memory(error)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_memory_of_a_gpu_is_given_back():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50, device="cuda")
    assert is_out_of_memory(caught.value)
    tensor = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    del tensor
    before = torch.cuda.memory_reserved()
    free_memory()
    assert torch.cuda.memory_reserved() <= before - 2**28


def test_memory_in_cycles_is_freed():
    class Holder:
        pass

    gc.disable()
    try:
        holder = Holder()
        holder.itself, holder.tensor = holder, torch.ones(3)
        reference = weakref.ref(holder)
        del holder
        assert reference() is not None
        free_memory()
        assert reference() is None
    finally:
        gc.enable()
