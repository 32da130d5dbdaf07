"""How Sphinx builds the site: ``make docs``."""

import os
import pydoc
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import desc, desc_signature, pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what TensorFlow says when it is imported is not about the site
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import site_pages  # noqa: E402 - it lies beside this file

project = "delira"
version = release = site_pages.delira.__version__
copyright = "the authors of delira"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
nitpicky = True  # a name in a docstring that leads nowhere is a warning, and "make docs" makes it an error

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"delira {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_search_summary = False  # it is fetched, which a page that is opened as a file may not do

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
nb_execution_mode = "off"  # "make test-notebooks" runs them; here they are shown with the outputs that they carry

autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = False  # those of Keras and PyTorch are not written for this site
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False


#: path of an object, and its public name -> where it is described; filled when the build begins
_PLACES: dict[str, str] = {}


def _write_pages(app: Sphinx) -> None:
    list(site_pages.write_pages())
    for where, names in site_pages.public_names().items():
        for name, (value, place) in names.items():
            if isinstance(getattr(value, "__module__", None), str) and hasattr(value, "__qualname__"):
                _PLACES.setdefault(f"{value.__module__}.{value.__qualname__}", place)
            _PLACES.setdefault(f"{where}.{name}", place)
            _PLACES.setdefault(name, place)


def _prepare(app: Sphinx, docname: str, source: list[str]) -> None:
    """Links of the pages in docs/ that lead out of it; and the index lists the pages that nobody has placed."""
    if "/" in docname:
        return
    file = site_pages.DOCS / f"{docname}.md"
    source[0] = site_pages.rewrite_links(source[0], file, file.name)
    if docname == "index":
        pages = sorted(path.stem for path in site_pages.DOCS.glob("*.md"))
        placed = set(re.findall(r"^(\w+)$", source[0], re.MULTILINE)) | {"index"}
        source[0] = source[0].replace("other-pages\n", "".join(f"{page}\n" for page in pages if page not in placed))


def _leave_out(app: Sphinx, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Methods that scikit-learn adds to every estimator (``set_score_request``) are described on its own site."""
    return True if str(getattr(value, "__module__", "")).startswith("sklearn.") else None


def _hide_constants(app: Sphinx, doctree: nodes.document) -> None:
    """Constants and second names have no source of their own that viewcode could lead to, and back from."""
    for description in doctree.findall(desc):
        if description.get("objtype") == "data":
            for signature in description.findall(desc_signature):
                signature["module"] = ""


def _mend_links_back(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Links from shown source to the reference: viewcode takes all names of a file to be public in one package."""
    if not page.startswith("_modules/"):
        return
    module = page.removeprefix("_modules/").replace("/", ".")

    def mended(match: re.Match[str]) -> str:
        owner, dot, member = match["name"].partition(".")
        return f'{match["opening"]}#{_PLACES.get(f"{module}.{owner}", match["package"] + "." + owner)}{dot}{member}"'

    names = "|".join(sorted({re.escape(place.rpartition(".")[0]) for place in _PLACES.values()}, key=len, reverse=True))
    pattern = rf'(?P<opening>class="viewcode-back" href="[^"#]*)#(?P<package>{names})\.(?P<name>[^"]*)"'
    context["body"] = re.sub(pattern, mended, context["body"])


def _resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element) -> Any:
    """A name as it was written in a docstring -> where it is described."""
    target = node["reftarget"]
    if node.get("refdomain") != "py":
        return None
    owner, _, member = target.rpartition(".")
    inside = f"{node.get('py:module')}.{node.get('py:class')}"
    for place in (
        _PLACES.get(target, target),
        f"{_PLACES.get(owner, owner)}.{member}",
        _declared(f"{inside}.{target}"),
    ):
        if place in env.domains.python_domain.objects:
            found = env.domains.python_domain.resolve_any_xref(env, node["refdoc"], app.builder, place, node, content)
            return found[0][1]
    is_a_type = "refwarn" not in node  # of an annotation, and no reference that somebody wrote
    beside = getattr(pydoc.locate(inside), "__module__", None)  # what is not public is named, and no link
    is_there = any(pydoc.locate(name) is not None for name in (target, f"{inside}.{target}", f"{beside}.{target}"))
    return content if is_a_type or is_there else None


def _declared(name: str) -> str:
    """Where a member is described that a class has from its base."""
    value = pydoc.locate(name)
    owner, _, member = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}".rpartition(".")
    return f"{_PLACES.get(owner, owner)}.{member}"


def setup(app: Sphinx) -> None:
    """Register what makes pages and follows names."""
    app.connect("builder-inited", _write_pages)
    app.connect("source-read", _prepare)
    app.connect("autodoc-skip-member", _leave_out)
    app.connect("doctree-read", _hide_constants, priority=400)  # before viewcode
    app.connect("html-page-context", _mend_links_back)
    app.connect("missing-reference", _resolve)
