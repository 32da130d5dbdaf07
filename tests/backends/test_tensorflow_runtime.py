"""What an import of the TensorFlow backend leaves alone."""

import subprocess
import sys

import pytest

pytest.importorskip("tensorflow", reason="the tensorflow backend needs the package 'tensorflow', not installed here")

PROBE = """
import tensorflow as tf
from delira.models import AbstractTfNetwork
from delira.training import TfExperiment
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
tf.config.threading.set_intra_op_parallelism_threads(3)
"""


@pytest.mark.slow
def test_it_does_not_start_the_runtime():
    """Else memory growth, threads and devices could not be set any more, and no child could be forked."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
