"""The pages in a real browser: nothing is loaded, nothing goes wrong, nothing sticks out of a phone, light and dark."""

import dataclasses
import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from test_bootstrap632 import bootstrap
from test_samples_shown import Counting

from delira.comparison import compare
from delira.experiments.learning_curve import LearningCurve
from delira.experiments.search_result import SearchResult, Trial
from delira.report import runs_page
from delira.report.examples import choose_examples, write_examples

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs the program 'chromium', which is not installed"),
]
PHONE, DESK = 360, 1100
#: a document around the page, which measures it: the page itself runs no script
HARNESS = """<!DOCTYPE html><body style="margin: 0"><iframe width="{width}" height="700" style="border: 0"
srcdoc="{page}"></iframe><pre></pre><script>
onload = () => {{
  const view = document.querySelector("iframe").contentWindow, page = view.document;
  for (const part of page.querySelectorAll("details")) part.open = true;
  const wide = [...page.querySelectorAll("body *")].filter(
    part => part.getBoundingClientRect().right > {width} + 1 && !part.closest(".wide, .hidden, svg"));
  document.querySelector("pre").textContent = JSON.stringify({{
    scroll: page.documentElement.scrollWidth, wide: wide.map(part => part.outerHTML.slice(0, 80)),
    loaded: view.performance.getEntriesByType("resource").map(entry => entry.name),
    broken: [...page.images].filter(image => !image.naturalWidth).length, images: page.images.length,
    headings: [...page.querySelectorAll("h1, h2")].map(part => part.textContent),
    unnamed: [...page.querySelectorAll("img:not([alt]), svg:not([aria-label]):not([aria-hidden])")].length,
    ids: [...page.querySelectorAll("[id]")].length,
  }});
}};
</script>"""


def chromium(tmp_path, *arguments):
    """Run the browser without a window; what it prints, and what pages write to its console."""
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr",
        f"--user-data-dir={tmp_path / 'profile'}", *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, timeout=100, check=True)
    return done.stdout.decode(), [line for line in done.stderr.decode().splitlines() if "CONSOLE" in line]


def measured(page, tmp_path, width):
    """What the page looks like when the window is that wide, and the lines of the console."""
    file = tmp_path / "harness.html"
    file.write_text(HARNESS.format(width=width, page=html.escape(page)), "utf-8")
    dom, console = chromium(
        tmp_path, "--window-size=1300,900", "--virtual-time-budget=4000", "--dump-dom", file.as_uri()
    )
    return json.loads(html.unescape(re.search(r"<pre>(.+?)</pre>", dom, re.DOTALL)[1])), console


def screenshot(page, tmp_path, *, is_dark):
    """Pixels of the page, uint8 of shape (H, W, 3)."""
    from PIL import Image

    file, picture = tmp_path / "page.html", tmp_path / "page.png"
    file.write_text(page, "utf-8")
    scheme = f"--blink-settings=preferredColorScheme={0 if is_dark else 1}"
    _, console = chromium(tmp_path, scheme, f"--window-size={DESK},2400", f"--screenshot={picture}", file.as_uri())
    assert console == []
    with Image.open(picture) as image:
        return np.asarray(image.convert("RGB"))


@pytest.fixture
def full(validate, data, tmp_path):
    """A result that has every section."""
    result = validate(data.labels, data.scores, path=tmp_path, groups=np.arange(90) // 2, info={
        "versions": {"python": "3.11"}, "settings": "training:\n  a_rather_long_name: " + "x" * 90,
        "warnings": ["w" * 100], "class_names": ["a long name of a class", "b", "c"],
    })  # fmt: skip
    for fold in result.folds:
        fold.timings = {"version": 1, "seconds": {"data": 1.0, "forward": 2.0, "backward": 3.0, "update": 1.0}}
    images = np.random.default_rng(0).random((90, 20, 20))
    write_examples(tmp_path, choose_examples(result, Counting(data=images)))
    return result


@pytest.fixture
def pages(full, validate):
    """One page of each kind."""
    numbers = np.random.default_rng(1).normal(size=600)
    regression = validate(numbers, numbers * 0.9, metrics={"a_metric_with_a_long_name": lambda t, p: 0.5})
    many = np.random.default_rng(2).integers(25, size=400)
    classes = validate(many, np.eye(25, dtype=np.float32)[many] * 3, n_folds=20, metrics={"m": lambda t, p: 0.5})
    return {
        "full": full.to_html(),
        "regression": regression.to_html(),
        "many classes and folds": classes.to_html(),
        "runs": runs_page([full, regression, classes]),
    }


@pytest.fixture
def further(validate, data, tmp_path):
    """One page of each kind that says what may be said: of a comparison, a search, a learning curve, a bootstrap."""
    one = validate(data.labels, data.scores)
    other = validate(data.labels, data.scores[::-1].copy())
    sized = {"train_sizes": [30, 60], "num_splits": 2 * len(one.folds)}
    shifted = [dataclasses.replace(fold, fold=fold.fold + len(one.folds)) for fold in other.folds]
    both = dataclasses.replace(one, folds=[*one.folds, *shifted], info=sized, name="a curve with a long name")
    trials = [
        Trial(number=n, state="finished", values={"optimizer_params.lr": 0.1 / (n + 1), "kind": "a" * 40}, scores=(n,))
        for n in range(50)
    ]
    return {
        "comparison": compare(
            [one, dataclasses.replace(other, name="a network with a rather long name")], metric="accuracy"
        ).to_html(),
        "search": SearchResult(
            trials=trials, metrics=["a_metric_with_a_long_name"], are_maximised=[True], path=tmp_path
        ).to_html(),
        "learning curve": LearningCurve(both).to_html(),
        "bootstrap": bootstrap().to_html(),
    }


@pytest.mark.parametrize("kind", ["comparison", "search", "learning curve", "bootstrap"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_pages_of_claims_fit_load_nothing_and_say_nothing_to_the_console(kind, width, further, tmp_path):
    found, console = measured(further[kind], tmp_path, width)
    assert console == []
    assert found["scroll"] <= width
    assert found["wide"] == []
    assert found["loaded"] == []
    assert found["broken"] == found["unnamed"] == 0
    assert len(found["headings"]) > 2


@pytest.mark.parametrize("kind", ["full", "regression", "many classes and folds", "runs"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_pages_fit_load_nothing_and_say_nothing_to_the_console(kind, width, pages, tmp_path):
    found, console = measured(pages[kind], tmp_path, width)
    assert console == []
    assert found["scroll"] <= width
    assert found["wide"] == []
    assert found["loaded"] == []
    assert found["broken"] == found["unnamed"] == 0
    assert len(found["headings"]) > 3


def test_the_full_page_shows_every_section(pages, tmp_path):
    found, _ = measured(pages["full"], tmp_path, DESK)
    assert found["headings"] == [
        "toy", "Before you read the numbers", "Summary", "Learning curves", "Folds", "Confusion matrix", "Classes",
        "Time", "Samples", "Cases", "Settings",
    ]  # fmt: skip
    assert found["images"] == 12


@pytest.mark.parametrize("kind", ["full", "runs"])
def test_light_and_dark_pages_are_light_and_dark_and_can_be_read(kind, pages, tmp_path):
    light, dark = (screenshot(pages[kind], tmp_path, is_dark=is_dark) for is_dark in (False, True))
    assert np.median(light) > 240
    assert np.median(dark) < 50
    for pixels in (light, dark):  # what is drawn differs from the paper
        assert pixels.astype(float).std() > 15


def test_the_browser_would_have_told(tmp_path):
    page = "<body><img src='https://example.org/a.png'><div style='width: 900px'>.</div>"
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = f'<!DOCTYPE html><meta http-equiv="Content-Security-Policy" content="{policy}">'
    found, console = measured(head + page, tmp_path, PHONE)
    assert any("example.org" in line for line in console)
    assert found["scroll"] > PHONE
    assert found["broken"] == found["unnamed"] == 1
