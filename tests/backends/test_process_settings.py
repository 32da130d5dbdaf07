"""What programs set of frameworks for the whole process: another process that is sent it has the same."""

import importlib
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from delira.contract.process_settings import unusual_settings

#: backend -> what a program sets, and what that is called
SET = {
    "torch": (
        "import torch; torch.set_default_dtype(torch.float64); torch.backends.cuda.matmul.allow_tf32 = True; "
        "torch.backends.cudnn.benchmark = True; torch.backends.cudnn.allow_tf32 = False; "
        "torch.use_deterministic_algorithms(True, warn_only=True); torch.set_flush_denormal(True); "
        "torch.backends.cuda.enable_flash_sdp(False); torch.backends.mkldnn.conv.fp32_precision = 'bf16'; "
        "torch.backends.opt_einsum.strategy = 'optimal'; torch.set_default_device('meta')",
        "default_device backends.opt_einsum.strategy "
        "default_dtype float32_matmul_precision backends.cudnn.allow_tf32 backends.cudnn.benchmark flash_sdp "
        "deterministic_algorithms flush_denormal backends.mkldnn.conv.fp32_precision",
    ),
    # two spellings at once, which PyTorch refuses to sum up
    "torch by its newer names": (
        "import torch; torch.backends.fp32_precision = 'tf32'; torch.backends.cudnn.conv.fp32_precision = 'ieee'",
        "backends.fp32_precision backends.cuda.matmul.fp32_precision backends.cudnn.conv.fp32_precision",
    ),
    "jax": (
        "import jax; jax.config.update('jax_enable_x64', True); "
        "jax.config.update('jax_default_matmul_precision', 'bfloat16'); "
        "jax.config.update('jax_numpy_dtype_promotion', 'strict'); jax.config.update('jax_platforms', 'cpu'); "
        "jax.config.update('jax_default_device', jax.devices('cpu')[0])",
        "jax_platforms jax_default_device jax_enable_x64 jax_default_matmul_precision jax_numpy_dtype_promotion",
    ),
    "tensorflow": (
        "import keras, tensorflow as tf; keras.config.set_floatx('float64'); "
        "keras.config.set_dtype_policy('mixed_bfloat16'); tf.config.experimental.enable_op_determinism(); "
        "tf.config.experimental.enable_tensor_float_32_execution(False)",
        "floatx dtype_policy op_determinism tensor_float_32",
    ),
}
#: what a program sets whatever its backend is
OF_NUMPY = "import numpy as np; np.seterr(over='raise')"
TELL = """
import json
from delira.contract.process_settings import read_settings, settings_of, unusual_settings
known = settings_of(type(BACKEND.devices))
def told():
    found = read_settings(known)
    other = {name: value for name, value in found.items() if value != known[name].usual}
    return json.dumps([other, unusual_settings(known), found], sort_keys=True)
"""
#: settings that say where is computed, or what raises, and that a run may go on without
NOT_TOLD = {"numpy_errors", "default_device", "jax_platforms", "jax_default_device", "visible_gpus"}


def run(code, sent=b""):
    environment = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, input=sent, capture_output=True, check=True, timeout=100, env=environment).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", SET)
def test_what_is_set_here_holds_where_it_is_unpickled(name):
    backend, (code, changed) = name.partition(" ")[0], SET[name]
    pytest.importorskip(backend)
    own = f"from delira.backends.{backend}.training import BACKEND\n{TELL}"
    setting = f"{own}assert not unusual_settings(known), unusual_settings(known)\n{code}\n{OF_NUMPY}\n"
    said = run(f"{setting}print(told())")
    sent = run(
        f"{setting}import pickle, sys\nfrom delira.contract.process_settings import SettingsOfProcess\n"
        "sys.stdout.buffer.write(pickle.dumps(SettingsOfProcess(BACKEND.devices)))"
    )
    there = run(f"import pickle, sys\npickle.loads(sys.stdin.buffer.read())\n{own}print(told())", sent)
    assert there == said
    other, in_manifest, _ = json.loads(said)
    assert {*changed.split(), "numpy_errors"} <= {*other}
    assert {*in_manifest} == {*other} - NOT_TOLD


def test_gpus_that_a_program_hides_from_tensorflow_are_hidden_where_there_are_some(monkeypatch):
    tf = pytest.importorskip("tensorflow")
    known = type(importlib.import_module("delira.backends.tensorflow.training").BACKEND.devices).process_settings
    gpus = [SimpleNamespace(name=f"/physical_device:GPU:{number}") for number in range(2)]
    visible, there = [[]], [gpus]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: there[0])
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: visible[0])
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda shown, kind: visible.__setitem__(0, shown))
    setting = known["visible_gpus"]
    hidden = setting.read()
    assert hidden == []
    setting.write(None)
    assert setting.read() is None
    setting.write(hidden)
    assert visible == [[]]
    visible[0] = gpus[1:]
    second = setting.read()
    visible[0] = there[0] = gpus[:1]  # a process that was dealt one sees it as the first
    setting.write(second)
    assert visible == [gpus[:1]]


def test_a_precision_that_was_put_back_is_as_usual():
    torch = pytest.importorskip("torch")
    before = torch.get_float32_matmul_precision()
    known = type(importlib.import_module("delira.backends.torch.training").BACKEND.devices).process_settings
    try:
        torch.set_float32_matmul_precision("medium")
        assert "backends.mkldnn.matmul.fp32_precision" in unusual_settings(known)
        torch.set_float32_matmul_precision("highest")
        assert not [name for name in unusual_settings(known) if "matmul" in name]
    finally:
        torch.set_float32_matmul_precision(before)
