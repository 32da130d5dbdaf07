"""U-Nets for images and volumes: masks of the size of what they are of, in every framework."""

import numpy as np
import pytest

import delira.models

ENDINGS = {"torch": "PyTorch", "tensorflow": "Tf", "jax": "Jax"}


@pytest.mark.slow_cases("tensorflow|jax")
@pytest.mark.parametrize(("name", "shape"), [("UNet2d", (1, 1, 5, 4)), ("UNet3d", (1, 1, 4, 3, 5))])
@pytest.mark.parametrize("framework", ENDINGS)
def test_a_mask_has_a_channel_for_each_class_and_the_size_of_the_image(framework, name, shape):
    pytest.importorskip({"jax": "flax"}.get(framework, framework), reason=f"the backend needs {framework!r}")
    network = getattr(delira.models, f"{name}{ENDINGS[framework]}")(3, in_channels=1, depth=2, start_filts=1)
    backend = network.__delira_backend__
    batch = network.prepare_batch({"data": np.ones(shape), "label": np.zeros((1, 1, *shape[2:]), int)}, "cpu", "cpu")
    with backend.calls.evaluating(network):
        outputs = backend.arrays.to_numpy(backend.calls.forward(network, {"x": batch["data"]}))
    assert outputs["pred"].shape == (1, 3, *shape[2:])
