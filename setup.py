"""Build delira: the version comes from delira/__init__.py, the dependencies from requirements/."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
#: Extras a user chooses from, each a file in requirements/; "full" is all of them.
#: trixi.txt and visdom.txt are in no extra: those two cannot be installed by a plain "pip install".
USER_EXTRAS = (
    "torch", "torchscript", "tensorflow", "jax", "sklearn", "logging", "images", "medical", "export", "cli", "ray",
    "slurm", "remote", "search",
)  # fmt: skip
#: Extras for those who work on delira.
DEVELOPER_EXTRAS = ("docs", "dev")


def read_version() -> str:
    """Read ``__version__`` without importing the package, whose dependencies may not be installed yet."""
    text = (ROOT / "delira" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if match is None:
        raise RuntimeError('delira/__init__.py has no line like: __version__ = "1.0.0"')
    return match.group(1)


def read_requirements(name: str) -> list[str]:
    """Read the requirements of ``requirements/<name>.txt``, without comments and blank lines."""
    lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def read_readme() -> str:
    """Read the page that package indices show."""
    readme = ROOT / "README.md"
    return readme.read_text(encoding="utf-8") if readme.exists() else ""


extras = {name: read_requirements(name) for name in (*USER_EXTRAS, *DEVELOPER_EXTRAS)}
extras["full"] = sorted({requirement for name in USER_EXTRAS for requirement in extras[name]})

setup(
    name="delira",
    version=read_version(),
    description="Write a network once and get the whole experiment, with whatever framework",
    long_description=read_readme(),
    long_description_content_type="text/markdown",
    author="The delira developers",
    license_expression="BSD-2-Clause",
    license_files=["LICENSE"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    python_requires=">=3.11",
    package_dir={"": "."},  # an editable install is a path then, which type checkers and editors follow
    packages=find_packages(include=["delira", "delira.*"]),
    package_data={"delira": ["py.typed", "**/*.pyi", "**/*.j2"]},
    entry_points={"console_scripts": ["delira = delira.cli:main"]},
    install_requires=read_requirements("base"),
    extras_require=extras,
)
