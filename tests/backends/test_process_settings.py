"""What programs set of frameworks for the whole process: another process that is sent it has the same."""

import importlib
import subprocess
import sys

import pytest

from delira.contract.process_settings import unusual_settings

#: backend -> what a program sets, and what that is called
SET = {
    "torch": (
        "import torch; torch.set_default_dtype(torch.float64); torch.backends.cuda.matmul.allow_tf32 = True; "
        "torch.backends.cudnn.benchmark = True; torch.backends.cudnn.allow_tf32 = False; "
        "torch.use_deterministic_algorithms(True, warn_only=True); torch.set_flush_denormal(True); "
        "torch.backends.cuda.enable_flash_sdp(False); torch.backends.mkldnn.conv.fp32_precision = 'bf16'",
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
        "jax.config.update('jax_numpy_dtype_promotion', 'strict')",
        "jax_enable_x64 jax_default_matmul_precision jax_numpy_dtype_promotion",
    ),
    "tensorflow": (
        "import keras, tensorflow as tf; keras.config.set_floatx('float64'); "
        "keras.config.set_dtype_policy('mixed_bfloat16'); tf.config.experimental.enable_op_determinism(); "
        "tf.config.experimental.enable_tensor_float_32_execution(False)",
        "floatx dtype_policy op_determinism tensor_float_32",
    ),
}
TELL = """
import json
from delira.contract.process_settings import read_settings, unusual_settings
known = type(BACKEND.devices).process_settings
"""


def run(code, sent=b""):
    return subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True, timeout=100).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", SET)
def test_what_is_set_here_holds_where_it_is_unpickled(name):
    backend, (code, changed) = name.partition(" ")[0], SET[name]
    pytest.importorskip(backend)
    own = f"from delira.backends.{backend}.training import BACKEND\n{TELL}"
    setting = f"{own}assert not unusual_settings(known), unusual_settings(known)\n{code}\n"
    said = run(f"{setting}print(json.dumps([unusual_settings(known), read_settings(known)], sort_keys=True))")
    sent = run(
        f"{setting}import pickle, sys\nfrom delira.contract.process_settings import SettingsOfProcess\n"
        "sys.stdout.buffer.write(pickle.dumps(SettingsOfProcess(BACKEND.devices)))"
    )
    read = "import pickle, sys\npickle.loads(sys.stdin.buffer.read())\n"
    there = run(f"{read}{own}print(json.dumps([unusual_settings(known), read_settings(known)], sort_keys=True))", sent)
    assert there == said
    assert not [one for one in changed.split() if f'"{one}"' not in said.decode()]


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
