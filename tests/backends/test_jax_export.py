"""Programs that JAX writes for others."""

import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from delira.errors import ConfigError, DataError

pytest.importorskip("flax", reason="the JAX backend needs the package 'flax', which is not installed")
pytest.importorskip("optax", reason="the JAX backend needs the package 'optax', which is not installed")
from small_jax_network import Net

from delira.io import export
from delira.models import named_weights


@pytest.mark.slow
def test_an_exported_network_runs_without_delira_for_any_number_of_samples(tmp_path):
    network = Net()
    path = export(network, tmp_path / "net.stablehlo", {"data": np.ones((4, 3))})
    x = np.arange(21, dtype=np.float32).reshape(7, 3)
    np.save(tmp_path / "x.npy", x)
    code = f"""
        import sys
        import numpy as np
        from jax import export
        program = export.deserialize(bytearray(open({str(path)!r}, "rb").read()))
        made = program.call({{"x": np.load({str(tmp_path / "x.npy")!r})}})
        np.save({str(tmp_path / "pred.npy")!r}, made["pred"])
        np.save({str(tmp_path / "sum.npy")!r}, made["parts"]["sum"])
        sys.exit("delira" in sys.modules or "flax" in sys.modules)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = x @ named_weights(network)["linear.kernel"] / math.sqrt(1 + 1e-5)
    np.testing.assert_allclose(np.load(tmp_path / "pred.npy"), expected, rtol=1e-4)
    np.testing.assert_allclose(np.load(tmp_path / "sum.npy"), x.sum(axis=1))


def test_an_export_says_what_is_wrong(tmp_path):
    with pytest.raises(ConfigError, match=r"the ending says the format, which is '.stablehlo'"):
        export(Net(), tmp_path / "net.onnx", {"data": np.ones((4, 3))})
    with pytest.raises(DataError, match="need the samples first"):
        export(Net(), tmp_path / "net.stablehlo", {"x": np.ones(())})
    assert not list(tmp_path.iterdir())
