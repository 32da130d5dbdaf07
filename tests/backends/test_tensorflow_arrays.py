"""Tensors of TensorFlow on their way to numpy."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
from delira.training import convert_tf_tensor_to_npy  # noqa: E402


def test_tensors_become_arrays():
    (listed, text), named = convert_tf_tensor_to_npy(
        [tf.ones((2, 3))], "name", loss=tf.constant(3.0), half=tf.ones(2, tf.bfloat16)
    )
    assert listed[0].shape == (2, 3)
    assert text == "name"
    assert named["loss"].shape == (1,)
    assert named["half"].dtype == np.float32
