"""What an import of the TensorFlow backend leaves alone, and names of variables: where they are in the network."""

import subprocess
import sys

import pytest

pytest.importorskip("tensorflow", reason="the tensorflow backend needs the package 'tensorflow', not installed here")

from small_tensorflow_network import built

from delira.backends.tensorflow.runtime import named_variables

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


def test_names_say_where_a_variable_is_and_are_the_same_in_every_instance():
    first, second = built(), built()
    names = list(named_variables(first))
    assert names == list(named_variables(second))
    assert {"scale", "encoder.0.kernel", "encoder.1.seed_generator.state", "blocks.1.norm.moving_mean"} <= {*names}
    assert {"blocks.0.conv.bias", "heads.main.kernel"} <= {*names}
    assert len(names) == len(first.variables)
