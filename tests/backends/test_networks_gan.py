"""GANs: their noise, and as many images as there are real ones, in every framework."""

import numpy as np
import pytest

import delira.models

ENDINGS = {"torch": "PyTorch", "tensorflow": "Tf", "jax": "Jax"}


@pytest.mark.slow_cases("tensorflow|jax")
@pytest.mark.parametrize("framework", ENDINGS)
def test_images_are_as_many_as_the_real_ones_and_those_of_their_noise(framework):
    pytest.importorskip({"jax": "flax"}.get(framework, framework), reason=f"the backend needs {framework!r}")
    cls = getattr(delira.models, f"GenerativeAdversarialNetworkBase{ENDINGS[framework]}")
    network = cls(n_channels=1, noise_length=3, start_filts=1)
    backend = network.__delira_backend__
    rng = np.random.default_rng(0)
    inputs = {"real_image_batch": rng.normal(size=(2, 1, 64, 64)), "noise": rng.normal(size=(2, 3))}
    prepared = network.prepare_batch({"data": inputs["real_image_batch"], "noise": inputs["noise"]}, "cpu", "cpu")
    with backend.calls.evaluating(network):
        named = {"real_image_batch": prepared["data"], "noise": prepared["noise"]}
        outputs = [backend.arrays.to_numpy(backend.calls.forward(network, named)) for _ in range(2)]
        drawn = backend.arrays.to_numpy(backend.calls.forward(network, {"real_image_batch": prepared["data"]}))
    assert {name: value.shape for name, value in outputs[0].items()} == {
        "fake_images": (2, 1, 64, 64), "discr_fake": (2, 1), "discr_real": (2, 1)
    }  # fmt: skip
    np.testing.assert_array_equal(outputs[0]["fake_images"], outputs[1]["fake_images"])
    assert not np.array_equal(drawn["fake_images"], outputs[0]["fake_images"])
