"""Programs that TensorFlow writes for others."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from delira.errors import ConfigError, DataError

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
from small_tensorflow_network import built  # noqa: E402

from delira.io import export  # noqa: E402


@pytest.mark.slow
def test_an_export_runs_without_delira_for_any_number_of_samples(tmp_path):
    network = built()
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    export(network, tmp_path / "net.savedmodel", {"data": x})
    export(network, tmp_path / "net.savedmodel", {"data": x})  # replaces it
    np.save(tmp_path / "x.npy", x)
    program = """
        import sys
        import numpy as np, tensorflow as tf
        x = np.load(sys.argv[1] + "/x.npy")
        serve = tf.saved_model.load(sys.argv[1] + "/net.savedmodel").signatures["serving_default"]
        assert "delira" not in sys.modules
        np.save(sys.argv[1] + "/y.npy", serve(x=tf.constant(x))["pred"].numpy())
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], check=True, capture_output=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), network(x)["pred"], rtol=1e-5, atol=1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {"net.savedmodel", "x.npy", "y.npy"}


@pytest.mark.parametrize(
    ("name", "example", "error", "message"),
    [
        ("net.onnx", {"data": np.ones((2, 3))}, ConfigError, "a SavedModel is a folder"),
        ("net", {"x": "text"}, DataError, "an array is needed"),
        ("net", {"data": np.float32(3)}, DataError, "samples first"),
    ],
)
def test_what_cannot_be_exported_is_refused(tmp_path, name, example, error, message):
    with pytest.raises(error, match=message):
        export(built(), tmp_path / name, example)
    assert not list(tmp_path.iterdir())
