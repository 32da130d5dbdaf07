"""``delira compare``: whether cross-validations over the same folds differ, and what may be said of it."""

import argparse

from delira.cli.output import Answer
from delira.comparison import Comparison, compare
from delira.errors import ConfigError


def run(options: argparse.Namespace) -> Answer:
    """Compare the runs that were named."""
    found = compare(
        options.run_folders,
        metric=options.metric,
        baseline=options.baseline,
        direction=options.direction,
        rope=options.rope,
        alpha=options.alpha,
    )
    page = None if options.html is None else _write_page(found, options.html)
    content = {
        "names": list(found.names),
        "paths": [str(result.path) for result in found.results],
        "folds": found.aligned.numbers,
        "n_cases": found.aligned.n_cases,
        "metrics": found.metrics,
        "differences": found.to_rows(),
        "words": found.words,
        "conventions": found.conventions,
        "page": page,
    }
    return Answer(content, f"{found}" if page is None else f"{found}\n\npage  {page}")


def _write_page(found: Comparison, path: str) -> str:
    try:
        return str(found.to_html(path))
    except OSError as error:
        raise ConfigError(f"the page cannot be written: {error}; name another file with --html") from error
