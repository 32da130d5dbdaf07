"""Autoencoders: the divergence of what images are drawn from, the same in every framework."""

import importlib

import numpy as np
import pytest


@pytest.mark.slow_cases("tensorflow|jax")
@pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax"])
def test_the_divergence_is_that_of_two_normal_distributions(framework):
    package = pytest.importorskip(framework, reason=f"the backend needs the package {framework!r}")
    vae = importlib.import_module(f"delira.backends.{framework}.networks.ready")
    convert = {"torch": "tensor", "tensorflow": "constant"}.get(framework)
    array = package.numpy.asarray if convert is None else getattr(package, convert)
    mean, log_var = np.array([[1.0, 0.0], [0.0, 0.0]], "f4"), np.array([[0.0, np.log(4.0)], [0.0, 0.0]], "f4")
    found = vae.kl_to_standard_normal(array(mean), array(log_var))
    # 0.5 (1 + 1 - 1 - 0) + 0.5 (0 + 4 - 1 - ln 4)
    np.testing.assert_allclose(np.asarray(found), [0.5 + 1.5 - np.log(2), 0.0], rtol=1e-6)
