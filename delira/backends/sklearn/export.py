"""Estimators as ``.skops`` files."""

from pathlib import Path

from delira.contract import ExportRole
from delira.contract.kinds import ByName, Network
from delira.errors import ConfigError, NetworkError
from delira.io import estimators
from delira.utils.files import as_target, publish


class SklearnExport(ExportRole):
    """Files of skops."""

    def write(self, network: Network, path: Path, example: ByName) -> None:
        """Write the estimator alone as ``.skops``, for ``skops.io.load``."""
        if path.suffix != ".skops":
            raise ConfigError(f"{path}: estimators are exported as .skops, or their weights as .safetensors")
        if not self.backend.calls.is_ready(network):
            raise NetworkError(f"{type(network.estimator).__name__} is not fitted, so it cannot be exported")
        as_target(path)
        content, _ = estimators.dump(network.estimator)
        publish(path, lambda file: file.write(content.tobytes()))
