"""Every public name of the older libraries is there, or says what to type instead."""

import importlib
import importlib.util
import warnings

import pytest
from names_table import PAGE, old_names, with_table


def told(place, name):
    """Return True if a name is there, or an error says what to type."""
    try:
        return getattr(place, name) is not None
    except ImportError as error:
        return "is gone; use " in str(error) and len(str(error)) > 60


@pytest.mark.parametrize(("module", "names"), [*old_names()], ids=lambda value: value if isinstance(value, str) else "")
def test_a_name_is_there_or_says_what_to_type(module, names):
    for framework in ("torch", "tensorflow"):
        pytest.importorskip(framework, reason=f"names of the package {framework!r}, which is not installed")
    place = importlib.import_module(module)
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            assert told(place, name), name


def test_the_page_tells_what_became_of_every_name():
    for framework in ("torch", "tensorflow"):
        pytest.importorskip(framework, reason=f"names of the package {framework!r}, which is not installed")
    text = PAGE.read_text(encoding="utf-8")
    assert with_table(text) == text, "run: python tests/migration/names_table.py"


def test_a_name_that_is_gone_says_so_at_its_import():
    with pytest.raises(ImportError, match=r"delira\.utils\.sitk_resample_to_spacing is gone; use SimpleITK\.Resample"):
        from delira.utils import sitk_resample_to_spacing  # noqa: F401
    with pytest.raises(ImportError, match=r"numba\.njit"):
        importlib.import_module("delira.data_loading.numba_transform").NumbaTransform  # noqa: B018


def test_a_renamed_one_warns():
    pytest.importorskip("tensorflow", reason="the experiment of the package 'tensorflow', which is not installed")
    with pytest.warns(DeprecationWarning, match=r"is now delira\.training\.TfExperiment"):
        from delira.training import TfEagerExperiment  # noqa: F401


def test_what_never_was_is_no_attribute():
    import delira.models

    assert not hasattr(delira.models, "NoSuchNetwork")
    assert not hasattr(importlib.import_module("delira.models.gan"), "NoSuchNetwork")
    assert importlib.util.find_spec("delira.models.nothing") is None
