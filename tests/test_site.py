"""The site: every public name is described, nothing is fetched from elsewhere, pictures say what they show."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import delira
from delira.frameworks import FRAMEWORKS, NAMES, installed_backends

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import site_pages  # noqa: E402

needs_every_backend = pytest.mark.skipif(
    len(installed_backends()) < len(NAMES), reason=f"the reference needs the packages {sorted({*FRAMEWORKS.values()})}"
)

# ------------------------------------------------------------------ what is made


@pytest.fixture(scope="module")
def reference():
    return site_pages.reference_pages()


def described(page: str) -> set[str]:
    return set(re.findall(r"^\.\. (?:auto\w+|py:\w+):: ([\w.]+)$", page, re.MULTILINE)) - {"py:module"}


@needs_every_backend
def test_every_package_has_a_page_and_every_exported_name_is_on_it(reference):
    for path in sorted(Path(delira.__file__).parent.rglob("__init__.py")):
        module = ".".join(("delira", *path.parent.relative_to(Path(delira.__file__).parent).parts))
        names = getattr(importlib.import_module(module), "__all__", None)
        if names:
            missing = {f"{module}.{name}" for name in names} - described(reference[f"api/{module}.md"])
            assert not missing


@needs_every_backend
def test_every_name_of_the_backends_is_where_it_is_shown(reference):
    for names in NAMES.values():
        for package, shown in names.items():
            assert {f"delira.{package}.{name}" for name in shown} <= described(reference[f"api/delira.{package}.md"])


@needs_every_backend
def test_an_object_is_described_once_and_under_its_shortest_name(reference):
    pages = "".join(reference.values())
    once = re.findall(r"^\.\. auto(?:class|function):: (.*)$", pages, re.MULTILINE)
    assert len(once) == len(set(once))
    assert "delira.Trial" in once
    assert "delira.trial.Trial" not in once
    assert "delira.training.BaseExperiment" in once
    assert "The same as :py:obj:`delira.training.BaseExperiment`." in reference["api/delira.training.md"]


@needs_every_backend
def test_the_tree_of_errors_is_all_that_is_shown_of_its_module():
    errors = importlib.import_module("delira.errors")
    assert all(issubclass(getattr(errors, name), BaseException) for name in site_pages.names_of(errors))


@needs_every_backend
def test_constants_say_what_they_are(reference):
    silent = re.findall(r"^\.\. py:data:: (.*)\n\n +\n", "\n".join(reference.values()), re.MULTILINE)
    assert silent == []


def test_links_lead_to_pages_of_the_site_or_to_files():
    for link, to in {
        "[a](../CHANGELOG.md#x)": "[a](project/changelog.md#x)",
        "[a](../benchmarks)": "[a](project/benchmarks.md)",
        "[a](../notebooks)": "[a](tutorials/index.md)",
        "[a](data.md)": "[a](data.md)",
        "[a](../delira/errors.py)": "[a](../delira/errors.py)",
        "`[a](../CHANGELOG.md)`": "`[a](../CHANGELOG.md)`",
    }.items():
        assert site_pages.rewrite_links(link, site_pages.DOCS / "how_to.md", "how_to.md") == to
    assert site_pages.rewrite_links("[a](docs/data.md)", ROOT / "README.md", "project/readme.md") == "[a](../data.md)"


def test_every_notebook_is_a_tutorial():
    copies = site_pages.copies()
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"\n{path.stem}\n" in copies["tutorials/index.md"]
        assert f"tutorials/{path.name}" in copies


# ------------------------------------------------------------------ what is built


class Page(HTMLParser):
    """Addresses that a page fetches, those that it leads to, names that can be led to, and its pictures."""

    def __init__(self, path: Path):
        super().__init__()
        self.fetched, self.links, self.names, self.pictures = [], [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if given.get("id"):
            self.names.add(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon", "shortcut icon", "preconnect"):
            self.fetched.append(given.get("href"))
        elif given.get("src"):
            self.fetched.append(given["src"])
        if tag == "img":
            self.pictures.append((given.get("src"), given.get("alt")))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages of the site, built as "make docs" does it, in a copy of the source."""
    for package in ("sphinx", "myst_nb", "furo"):
        pytest.importorskip(package, reason=f"the site needs the package {package!r}, which is not installed")
    folder = tmp_path_factory.mktemp("site")
    left_out = shutil.ignore_patterns(".*", "build", "_build", "dist", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(ROOT, folder / "source", ignore=left_out)
    shutil.copytree(ROOT / "tests", folder / "source" / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "docs", str(folder / "html")]
    environment = {**os.environ, "PYTHONPATH": str(folder / "source")}
    done = subprocess.run(
        command, cwd=folder / "source", env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return folder / "html", {path: Page(path) for path in sorted((folder / "html").rglob("*.html"))}


def foreign_addresses(pages):
    """What a reader's browser would fetch from elsewhere."""
    return [
        f"{path.name}: {address}"
        for path, page in pages.items()
        for address in page.fetched
        if re.match(r"(https?:)?//", address or "")
    ]


def dead_links(pages):
    dead = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            target, _, name = link.partition("#")
            file = (path.parent / target).resolve() if target else path
            is_named = not name or file not in pages or name in pages[file].names
            if not file.exists() or not (is_named or "_modules" in file.parts):
                dead.append(f"{path.name}: {link}")
    return dead


# One test: with workers, each that runs a test of the site would build it.
@pytest.mark.slow
@pytest.mark.timeout(700)
@needs_every_backend
def test_the_site_is_built_without_warnings_is_whole_and_fetches_nothing(site):
    folder, pages = site
    assert len(pages) > 60
    assert foreign_addresses(pages) == []
    assert dead_links(pages) == []
    assert [picture for page in pages.values() for picture, text in page.pictures if not (text or "").strip()] == []
    styles = "".join(path.read_text("utf-8") for path in (folder / "_static").rglob("*.css"))
    assert re.findall(r"(?:url\(|@import )['\"]?(?:https?:)?//[^)'\"]*", styles) == []
    assert "abstractpytorchnetwork" in (folder / "searchindex.js").read_text("utf-8").lower()
    shown = {path.stem for path in (folder / "tutorials").glob("*.html")} - {"index"}
    assert {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} == shown
