"""What is installed, what of it works, and what to type where something is missing.

Every package is imported in a process of its own, so that a broken one is reported and breaks nothing here.
"""

import argparse
import concurrent.futures
import dataclasses
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from delira.cli.output import Answer
from delira.execution.executor import usable_cores
from delira.frameworks import FRAMEWORKS, PACKAGES
from delira.utils.import_order import CURE, FIRST, LATER, USER, needs_order

_TIMEOUT = 180.0  # seconds; the first import of TensorFlow from a cold disk takes long

#: package -> Python that gives the names of the devices it sees
_DEVICES = {
    "torch": "['cpu'] + [first.cuda.get_device_name(i) for i in range(first.cuda.device_count())]",
    "tensorflow": "[device.name for device in first.config.list_physical_devices()]",
    "jax": "[str(device) for device in first.devices()]",
    "sklearn": "['cpu']",
}
#: package -> (list of requirements that it is in, what it is for)
OPTIONAL = {
    "tensorboardX": ("logging", "event files of TensorBoard"),
    "tensorboard": ("logging", "showing them"),
    "imageio": ("images", "images from files"),
    "skimage": ("images", "transforms of images"),
    "PIL": ("images", "images from files"),
    "nibabel": ("medical", "NIfTI files"),
    "SimpleITK": ("medical", "medical images"),
    "safetensors": ("export", "weights for other programs"),
    "onnx": ("export", "networks for other programs"),
    "onnxscript": ("export", "networks for other programs"),
    "shtab": ("cli", "completion of the command delira in shells"),
    "ml_dtypes": ("export", "bfloat16 in numpy"),
    "mlflow": ("trackers", "runs of MLflow"),
    "wandb": ("trackers", "runs of Weights & Biases"),
    "visdom": ("visdom", "windows of visdom"),
}
#: package -> how it is installed; of the others the list is an extra of delira
_IN_NO_EXTRA = {
    "mlflow": "pip install mlflow-skinny",
    "wandb": "pip install wandb",
    # its setup.py imports what newer versions of setuptools lack
    "visdom": "pip install 'setuptools<81' && pip install --no-build-isolation visdom==0.2.4",
}
_ORDER = (
    f"{FIRST}, {USER} and {LATER} are installed: {FIRST} imported after {LATER} may be a segmentation fault. delira "
    f"imports it before; where a script imports {LATER} itself, {CURE}"
)
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One package."""

    package: str
    """Name that is imported; of a backend the first one of those it needs."""
    backends: tuple[str, ...] = ()
    """Backends that need it; none of an optional package."""
    purpose: str = ""
    state: str
    """``"works"``, ``"missing"``, ``"incomplete"`` (a package that it needs is missing) or ``"broken"``."""
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Of all packages that were imported, by name."""
    devices: tuple[str, ...] = ()
    """What a framework computes on."""
    problem: str | None = None
    install: str
    """The command that installs it, with all that it needs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Findings:
    """What :func:`examine` found; prints as a page."""

    system: Mapping[str, Any]
    """Versions, processors, threads."""
    folder: Mapping[str, Any]
    """The working folder, and why it cannot be written to, if it cannot."""
    frameworks: Sequence[Finding]
    optional: Sequence[Finding]

    @property
    def is_broken(self) -> bool:
        """Return True if something is installed and does not work."""
        return any(finding.state == "broken" for finding in (*self.frameworks, *self.optional))

    def __str__(self) -> str:
        path, problem = self.folder["path"], self.folder["problem"]
        lines = [f"{name:<11} {_told(value)}" for name, value in self.system.items()]
        lines += [f"{'folder':<11} {path} ({problem or 'can be written to'})", "", "backends"]
        lines += [line for finding in self.frameworks for line in _lines(finding, ", ".join(finding.backends))]
        lines += ["", "optional packages"]
        lines += [line for finding in self.optional for line in _lines(finding, finding.package)]
        return "\n".join(lines)


def run(options: argparse.Namespace) -> Answer:
    """Say what :func:`examine` found; nothing is asked for."""
    found = examine()
    return Answer({**dataclasses.asdict(found), "is_broken": found.is_broken}, str(found), is_broken=found.is_broken)


def examine() -> Findings:
    """Look at this installation; takes some seconds, since every framework is imported."""
    backends: dict[tuple[str, ...], tuple[str, ...]] = {}
    for backend, package in FRAMEWORKS.items():
        packages = PACKAGES.get(backend, (package,))
        backends[packages] = (*backends.get(packages, ()), backend)
    with concurrent.futures.ThreadPoolExecutor(max_workers=usable_cores()) as pool:
        frameworks = [pool.submit(_framework, *each) for each in backends.items()]
        optional = [pool.submit(_optional, package) for package in OPTIONAL]
        return Findings(
            system=_system(),
            folder=_folder(_here()),
            frameworks=[each.result() for each in frameworks],
            optional=[each.result() for each in optional],
        )


def _system() -> dict[str, Any]:
    import numpy

    delira = sys.modules["delira"]
    has_driver = shutil.which("nvidia-smi") is not None or Path("/proc/driver/nvidia").exists()
    return {
        "delira": f"{delira.__version__} in {Path(__file__).parents[1]}",
        "python": f"{platform.python_version()}, {sys.executable}",
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "processors": usable_cores(),
        "threads": {name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ},
        "NVIDIA GPU": "there is a driver" if has_driver else "no driver",
        **({"imports": _ORDER} if needs_order() else {}),
    }


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError:  # it was deleted
        return Path(os.curdir)


def _folder(path: Path) -> dict[str, Any]:
    """Return the working folder, and why it cannot be written to, if it cannot."""
    try:
        with tempfile.TemporaryFile(dir=path):
            problem = None
    except OSError as error:
        problem = f"cannot be written to: {error}; give experiments a save_path"
    return {"path": str(path), "problem": problem}


# ------------------------------------------------------------------ one package


def _framework(packages: tuple[str, ...], backends: tuple[str, ...]) -> Finding:
    modules = [f"delira.backends.{backend}.training" for backend in backends]  # which import all that they need
    found = _probe(packages, modules, _DEVICES.get(packages[0], "[]"))
    return Finding(package=packages[0], backends=backends, install=f"pip install 'delira[{backends[0]}]'", **found)


def _optional(package: str) -> Finding:
    extra, purpose = OPTIONAL[package]
    install = _IN_NO_EXTRA.get(package, f"pip install 'delira[{extra}]'")
    return Finding(package=package, purpose=purpose, install=install, **_probe([package]))


def _probe(packages: Sequence[str], modules: Sequence[str] = (), devices: str = "[]") -> dict[str, Any]:
    """Import packages, and modules that need them, in a process of its own."""
    if importlib.util.find_spec(packages[0]) is None:
        return {"state": "missing"}
    script = _SCRIPT.format(packages=[*packages], modules=[*modules], devices=devices, mark=_MARK)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", script]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        # packages may say something when the process ends
        said = json.loads(done.stdout.rpartition(_MARK)[2].splitlines()[0])
    except subprocess.TimeoutExpired:
        return {"state": "broken", "problem": f"its import did not end within {_TIMEOUT:.0f} s"}
    except (ValueError, IndexError):
        last = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
        how = f"exit code {done.returncode}: {last}" if done.returncode >= 0 else signal.Signals(-done.returncode).name
        return {"state": "broken", "problem": f"its import ended the process with {how}"}
    return {**said, "devices": tuple(said["devices"])}


_MARK = "delira doctor: "
_SCRIPT = """
import importlib, importlib.util, json
said = {{"state": "works", "versions": {{}}, "devices": []}}
try:
    imported = [importlib.import_module(name) for name in {packages}]
    for module in imported:
        said["versions"][module.__name__] = str(getattr(module, "__version__", "of unknown version"))
    for name in {modules}:
        importlib.import_module(name)
    first = imported[0]
    said["devices"] = {devices}
except ModuleNotFoundError as error:
    root = error.name.partition(".")[0]
    if root != error.name and importlib.util.find_spec(root) is not None:  # it is there, without a part of it
        said.update(state="broken", problem=f"the module {{error.name!r}} is missing in the package {{root!r}}")
    else:
        said.update(state="incomplete", problem=f"the package {{error.name!r}} is missing")
except Exception as error:
    said.update(state="broken", problem=f"{{type(error).__name__}}: {{error}}")
print()
print({mark!r} + json.dumps(said))
"""


# ------------------------------------------------------------------ as text


def _told(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={setting}" for name, setting in value.items()) or "not limited by the environment"
    return str(value)


def _lines(finding: Finding, name: str) -> list[str]:
    """One line, and more where something is to be done."""
    versions = [f"{package} {version}" for package, version in finding.versions.items()]
    devices = f"devices: {', '.join(finding.devices)}" if finding.devices else ""
    what = "; ".join(filter(None, [", ".join(versions), devices, finding.purpose]))
    again = " --force-reinstall" if finding.state == "broken" else ""
    cure = "" if finding.state == "works" else f"{finding.install}{again}"
    first = f"  {finding.state:<10} {name:<19} {what}".rstrip()
    return [first, *(f"{'':13}{each}" for each in (finding.problem, cure) if each)]
