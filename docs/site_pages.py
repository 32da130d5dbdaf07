"""Pages of the site that are made, not written: the API reference, and copies of what lies outside docs/."""

import importlib
import json
import os
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import delira
from delira import state
from delira.frameworks import NAMES

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

#: what lies outside of docs/ -> its page; the notebooks are added below
PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "examples/README.md": "project/examples.md",
    "examples/own_backend/README.md": "project/example_of_a_backend.md",
    "notebooks/README.md": "tutorials/index.md",
}
#: modules without ``__all__`` whose names are public all the same
ALSO_PUBLIC = ("delira.errors", "delira.state")
#: part of a link in Markdown that leads to a file
_LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
#: blocks and pieces of code, where brackets are no links
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)

# ------------------------------------------------------------------ public names


def public_modules() -> list[str]:
    """Modules that a user imports from, those nearest to ``delira`` first."""
    found = ["delira", *ALSO_PUBLIC]
    for info in pkgutil.walk_packages(delira.__path__, "delira."):
        if info.ispkg and info.name != "delira.backends" and "_" not in {part[0] for part in info.name.split(".")}:
            found.append(info.name)
    shown = {f"delira.{package}" for names in NAMES.values() for package in names}
    found += [*shown, "delira.training.metrics"]
    return sorted(set(found), key=lambda name: (name.startswith("delira.backends"), name.count("."), name))


def names_of(module: ModuleType) -> list[str]:
    """Public names of a module: those that it lists, and those of backends that it shows."""
    package = module.__name__.removeprefix("delira.")
    names = {name for backend in NAMES.values() for name in backend.get(package, ())}
    if module.__name__ in ALSO_PUBLIC:
        own = {name for name, value in vars(module).items() if _is_from(value, module) and name[0] != "_"}
        # checks are delira's own: of the errors, users catch the capitalised
        names |= own if module.__name__ != "delira.errors" else {name for name in own if name[0].isupper()}
    names |= set(getattr(module, "__all__", ()))
    names |= {"Trial"} if module.__name__ == "delira" else set()
    return sorted(names, key=lambda name: (not name[0].isupper(), name.lower()))


def _is_from(value: Any, module: ModuleType) -> bool:
    return getattr(value, "__module__", None) == module.__name__


def public_names() -> dict[str, dict[str, tuple[Any, str]]]:
    """Module -> name -> (the object, where it is described).

    An object that is shown in several places is described in one: that with the shortest path.
    """
    modules = {name: importlib.import_module(name) for name in public_modules()}
    entries = [(where, name, getattr(module, name)) for where, module in modules.items() for name in names_of(module)]
    # a name that is not the object's own (AbstractExperiment) describes it only if it has no other
    entries_by_rank = sorted(entries, key=lambda entry: getattr(entry[2], "__name__", entry[1]) != entry[1])
    home: dict[Any, str] = {}
    for where, name, value in entries_by_rank:
        home.setdefault(_identity(where, name, value), f"{where}.{name}")
    found: dict[str, dict[str, tuple[Any, str]]] = {}
    for where, name, value in entries:
        found.setdefault(where, {})[name] = (value, home[_identity(where, name, value)])
    return found


def _identity(where: str, name: str, value: Any) -> Any:
    """Equal for two names of one thing; two constants may happen to be the same number or text."""
    return id(value) if callable(value) or isinstance(value, state.StateKey) else (where, name)


# ------------------------------------------------------------------ the reference


def reference_pages() -> dict[str, str]:
    """Path below docs/ -> text, of the whole API reference."""
    names = public_names()
    pages = {f"api/{module}.md": _reference_page(module, entries) for module, entries in names.items()}
    main = [module for module in names if not module.startswith("delira.backends")]
    backends = [module for module in names if module.startswith("delira.backends")]
    pages["api/index.md"] = "\n".join([
        "# API reference\n",
        "Every public name, one page for each package. What several packages show is described in one of them.\n",
        _toctree("Packages", main), _toctree("Backends", backends),
    ])  # fmt: skip
    return pages


def _toctree(caption: str, entries: list[str], *, hidden: bool = False) -> str:
    options = [f":caption: {caption}", ":maxdepth: 1", *[":hidden:"] * hidden]
    return "\n".join(["```{toctree}", *options, "", *entries, "```\n"])


def _comment_of(module: str, constant: str) -> str:
    """What the comment above a constant says, wherever it is assigned; the module's own folder goes first."""
    package = Path(delira.__file__).parent
    own = package.parent / module.replace(".", "/")
    for path in sorted(package.rglob("*.py"), key=lambda path: (not path.is_relative_to(own), path)):
        if found := re.search(rf"((?:^#: .*\n)+){constant}\b.* = ", path.read_text("utf-8"), re.MULTILINE):
            return " ".join(line.removeprefix("#: ") for line in found[1].splitlines())
    return ""


def _reference_page(module: str, entries: dict[str, tuple[Any, str]]) -> str:
    lines = [f"# {module}\n", "```{eval-rst}", f".. automodule:: {module}\n"]
    for name, (value, place) in entries.items():
        full = f"{module}.{name}"
        if place != full:
            lines += [f".. py:data:: {full}\n", f"   The same as :py:obj:`{place}`.\n"]
        elif isinstance(value, state.StateKey):
            since = f"Set since ``{state.SINCE[value]}``." if value in state.SINCE else ""
            lines += [f".. py:data:: {full}\n", f"   {state.MEANING[value]}. {since}\n"]
        elif isinstance(value, type):
            lines += [f".. autoclass:: {full}", "   :members:", "   :show-inheritance:\n"]
        elif callable(value):
            lines += [f".. auto{'function' if hasattr(value, '__code__') else 'data'}:: {full}\n"]
        else:
            lines += [f".. py:data:: {full}\n", f"   {_comment_of(module, name)}\n"]
    return "\n".join([*lines, "```\n"])


# ------------------------------------------------------------------ copies


def copies() -> dict[str, str]:
    """Path below docs/ -> text, of the pages and notebooks that lie outside docs/."""
    pages = {page: rewrite_links((ROOT / file).read_text("utf-8"), ROOT / file, page) for file, page in PAGES.items()}
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    for path in notebooks:
        page = f"tutorials/{path.name}"
        notebook = json.loads(path.read_text("utf-8"))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = rewrite_links("".join(cell["source"]), path, page).splitlines(keepends=True)
        pages[page] = json.dumps(notebook, indent=1)
    index = pages["tutorials/index.md"]
    in_order = sorted(notebooks, key=lambda path: (index.find(path.name) % len(index), path.stem))  # not found: last
    pages["tutorials/index.md"] = f"{index}\n{_toctree('Tutorials', [path.stem for path in in_order], hidden=True)}"
    return pages


def rewrite_links(text: str, file: Path, page: str) -> str:
    """Let the links of a file lead from its page to the pages of the site, and to files where there is no page."""
    parts = _CODE.split(text)
    parts[::2] = [_LINK.sub(lambda match: _link(match, file, page), part) for part in parts[::2]]
    return "".join(parts)


def _link(match: re.Match[str], file: Path, page: str) -> str:
    opening, target, anchor, closing = match.groups(default="")
    path = (file.parent / target).resolve()
    if not path.is_relative_to(ROOT) or not path.exists():
        return match[0]  # the build says that it leads nowhere
    name = path.relative_to(ROOT).as_posix()
    to = "index.md" if name == "README.md" else PAGES.get(name) or PAGES.get(f"{name}/README.md")
    if path.suffix == ".ipynb":
        to = f"tutorials/{path.name}"
    where = DOCS / to if to else path
    return f"{opening}{os.path.relpath(where, (DOCS / page).parent)}{anchor}{closing}"


def write_pages() -> Iterator[Path]:
    """Write what has changed, and remove what is no longer made."""
    pages = {**reference_pages(), **copies()}
    for folder in ("api", "project", "tutorials"):
        for old in (DOCS / folder).glob("*"):
            if old.relative_to(DOCS).as_posix() not in pages:
                old.unlink()
    for name, text in pages.items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            yield path
