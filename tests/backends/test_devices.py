"""Devices of every backend: where a network is, threads, memory, and what is refused."""

import contextlib

import numpy as np
import pytest

from delira.contract.devices import asked_for
from delira.errors import ConfigError


def test_the_cpu_is_taken_unless_another_device_is_asked_for(kit):
    devices = kit.backend.devices
    here = devices.resolve((), "cpu")
    assert here == devices.resolve((), None)
    assert "cpu" in str(here.input).lower()
    assert devices.memory(here) is None
    devices.synchronize(here)


def test_a_network_stays_what_it_is_on_its_device(kit):
    devices, network = kit.backend.devices, kit.build()
    placed = devices.place(network, {"mse": kit.loss}, devices.resolve((), "cpu"))
    assert placed is network
    np.testing.assert_array_equal(kit.read(placed), kit.read(kit.build()))
    assert "cpu" in str(devices.of(placed).input).lower()


@pytest.mark.parametrize("asked", [([0], "cpu"), ([], "abacus"), ([], "cuda:99")], ids=str)
def test_devices_that_are_not_there_are_refused(kit, asked):
    with pytest.raises(ConfigError, match=r"gpu_ids|abacus|cuda:99"):
        kit.backend.devices.resolve(*asked)


def test_threads_that_nobody_chose_stay(kit):
    devices = kit.backend.devices
    before = devices.thread_count()
    with devices.threads(None):
        assert devices.thread_count() == before
    assert devices.thread_count() == before


@pytest.mark.parametrize("kit", ["torch"], indirect=True)
def test_threads_are_those_of_before_after_an_error(kit):
    devices = kit.backend.devices
    before = devices.thread_count()
    with contextlib.suppress(KeyError), devices.threads(before + 1):
        assert devices.thread_count() == before + 1
        raise KeyError
    assert devices.thread_count() == before


@pytest.mark.parametrize("kit", ["toy"], indirect=True)
def test_the_plain_case_has_no_threads_and_no_number_formats(kit):
    devices = kit.backend.devices
    with pytest.raises(ConfigError, match="the backend 'toy' cannot choose the number of threads"):
        devices.threads(2)
    with pytest.raises(ConfigError, match="the backend 'toy' cannot change the number format of a network"):
        devices.move(kit.build(), {}, devices.resolve((), None), np.float16)


def test_running_out_of_memory_is_told_from_other_errors(kit):
    devices = kit.backend.devices
    assert devices.is_out_of_memory(MemoryError())
    assert not devices.is_out_of_memory(KeyError("memory"))
    devices.free_memory()


def test_what_was_asked_for_is_told_as_it_was_spelled():
    assert asked_for([1], None) == "gpu_ids=[1]"
    assert asked_for([], "cpu") == "device='cpu'"
    with pytest.raises(ConfigError, match=r"gpu_ids=\[0\] and device='cpu' say the same; give only one of them"):
        asked_for([0], "cpu")
