"""Public names that are resolved on first use, and what is said where their framework is missing."""

import importlib
import subprocess
import sys
import textwrap

import pytest

import delira
from delira.errors import MissingBackendError
from delira.frameworks import FRAMEWORKS, NAMES, installed_backends
from delira.utils.lazy import lazy_names

#: makes a package impossible to import, as if it were not installed
HIDE = """
    import sys

    class Hiding:
        def __init__(self, finder):
            self.finder = finder

        def find_spec(self, name, *args):
            return None if name.partition(".")[0] == {package!r} else self.finder.find_spec(name, *args)

        def __getattr__(self, name):
            return getattr(self.finder, name)

    sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
"""
SHOWN = [
    (backend, package, name)
    for backend, packages in NAMES.items()
    for package, names in packages.items()
    for name in names
]


def run_without(package, code):
    """Run ``code`` in a fresh interpreter without ``package``."""
    program = textwrap.dedent(HIDE.format(package=package)) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_name_of_a_missing_framework_says_what_to_install():
    shown = [(backend, package, name) for backend, package, name in SHOWN if FRAMEWORKS[backend] == "torch"]
    code = f"""
        import importlib
        for backend, package, name in {shown!r}:
            module = importlib.import_module("delira." + package)
            try:
                getattr(module, name)
            except ImportError as error:
                print(backend, package, name, "|", type(error).__name__, "|", error)
    """
    lines = run_without("torch", code).splitlines()
    expected = [
        f"{backend} {package} {name} | MissingBackendError | delira.{package}.{name} needs the package 'torch', which "
        f"is not installed. Install it with: pip install 'delira[{backend}]'"
        for backend, package, name in shown
    ]
    assert shown
    assert lines == expected


def test_an_import_statement_of_a_missing_framework_says_the_same():
    code = """
        try:
            from delira.training import PyTorchExperiment
        except ImportError as error:
            print(error)
    """
    text = run_without("torch", code)
    assert text.strip() == (
        "delira.training.PyTorchExperiment needs the package 'torch', which is not installed. "
        "Install it with: pip install 'delira[torch]'"
    )


def test_without_a_framework_the_rest_works_and_names_are_still_listed():
    code = """
        import delira, delira.data_loading, delira.io, delira.models, delira.testing, delira.training
        from delira.training import Parameters
        print("PyTorchNetworkTrainer" in dir(delira.training), delira.get_backends())
    """
    shown, backends = run_without("torch", code).strip().split(" ", 1)
    assert shown == "True"
    assert "TORCH" not in backends


def test_the_error_is_an_import_error():
    assert issubclass(MissingBackendError, ImportError)


def test_an_error_inside_a_backend_is_not_taken_for_a_missing_framework():
    """A module of delira that is missing is a bug, not a package to install."""
    code = """
        import sys
        sys.modules["delira.backends.torch"] = None
        import delira.models
        try:
            delira.models.AbstractPyTorchNetwork
        except ImportError as error:
            print(type(error).__name__, error.name)
    """
    assert run_without("no_such_package", code).split() == ["ModuleNotFoundError", "delira.backends.torch"]


@pytest.mark.parametrize("module", ["models", "training", "callbacks", "training.train_utils", "io"])
def test_an_unknown_attribute_is_an_attribute_error(module):
    imported = __import__(f"delira.{module}", fromlist=["*"])
    with pytest.raises(AttributeError, match=f"module 'delira.{module}' has no attribute 'no_such_name'"):
        _ = imported.no_such_name
    assert not hasattr(imported, "no_such_name")
    assert getattr(imported, "no_such_name", None) is None


@pytest.mark.parametrize(("backend", "package", "name"), SHOWN)
def test_every_name_is_the_one_of_its_backend_and_resolved_once(backend, package, name):
    pytest.importorskip(FRAMEWORKS[backend])
    public = __import__(f"delira.{package}", fromlist=["*"])
    private = __import__(f"delira.backends.{backend}", fromlist=["*"])
    assert getattr(public, name) is getattr(private, name)
    assert vars(public)[name] is getattr(private, name)
    assert name in dir(public)


def test_a_package_without_backends_shows_nothing():
    getter, lister = lazy_names("delira.utils")
    assert "AbstractPyTorchNetwork" not in lister()
    with pytest.raises(AttributeError, match=r"module 'delira\.utils' has no attribute 'AbstractPyTorchNetwork'"):
        getter("AbstractPyTorchNetwork")


def test_backends_are_named_without_importing_them():
    code = "import sys, delira; print(*delira.get_backends()); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert (
        tuple(done.stdout.split())
        == delira.get_backends()
        == tuple(backend.upper() for backend in installed_backends())
    )


@pytest.mark.parametrize(
    ("module", "older", "today"),
    [
        ("delira.contract", "room_default", "backend_default"),
        ("delira.testing", "RoomUnderTest", "BackendUnderTest"),
        ("delira.testing.spec", "RoomUnderTest", "BackendUnderTest"),
    ],
)
def test_a_name_of_before_works_and_says_what_it_is_called_now(module, older, today):
    package = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=f"{module}.{older} is now called {today}") as caught:
        assert getattr(package, older) is getattr(package, today)
    assert caught[0].filename == __file__
    assert older not in package.__all__
