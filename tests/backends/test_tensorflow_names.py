"""Names of TensorFlow's variables: where they are in the network."""

import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
from small_tensorflow_network import built  # noqa: E402

from delira.backends.tensorflow.names import named_variables  # noqa: E402


def test_names_say_where_a_variable_is_and_are_the_same_in_every_instance():
    first, second = built(), built()
    names = list(named_variables(first))
    assert names == list(named_variables(second))
    assert {"scale", "encoder.0.kernel", "encoder.1.seed_generator.state", "blocks.1.norm.moving_mean"} <= {*names}
    assert {"blocks.0.conv.bias", "heads.main.kernel"} <= {*names}
    assert len(names) == len(first.variables)
