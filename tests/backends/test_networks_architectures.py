"""Architectures of ready networks: each framework's modules are the common ones, made of its own layers."""

import importlib
import inspect

import pytest

from delira.models import architectures


@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_every_architecture_is_made_of_the_layers_of_the_framework(framework):
    pytest.importorskip({"jax": "flax"}.get(framework, framework), reason=f"the backend needs {framework!r}")
    module = importlib.import_module(f"delira.backends.{framework}.networks.ready")
    layers = importlib.import_module(f"delira.backends.{framework}.networks.layers")
    common = [
        name
        for name, cls in inspect.getmembers(architectures, inspect.isclass)
        if cls.__module__ == architectures.__name__ and name[0] != "_" and hasattr(module, name)
    ]
    assert len(common) >= 9
    for name in common:
        cls = getattr(module, name)
        assert issubclass(cls, getattr(architectures, name))
        assert cls.make is layers
