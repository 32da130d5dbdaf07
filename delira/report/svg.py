"""Figures of matplotlib as part of a page: inline SVG in the page's colours and font, light or dark."""

import html
import io
import re
from typing import TYPE_CHECKING, Any

from delira.report import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALE = 1.385
"""Pixels per point: three panels are as wide as the page."""
COLOURS = {
    plots.TRAINING: "var(--training)",
    plots.VALIDATION: "var(--validation)",
    plots.INK: "var(--ink)",
    plots.MUTED: "var(--muted)",
    plots.RULE: "var(--rule)",
    plots.PAPER: "var(--paper)",
}
SALT = "delira"
"""Makes the names inside of an SVG depend on what is drawn alone."""


def inline_svg(figure: "Figure", label: str) -> Any:
    """Draw a figure as an ``<svg>`` element.

    Parameters
    ----------
    figure
        What is drawn.
    label
        Read out instead of the drawing.

    Returns
    -------
    markupsafe.Markup
        As wide as the room that it is given, at most its own width; texts are escaped.
    """
    import matplotlib
    from markupsafe import Markup

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": SALT}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None}, dpi=150)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, count=1, flags=re.DOTALL)
    head, body = svg.split(">", 1)
    # HTML needs no name spaces; the size is in pixels.
    width, height = (float(number) for number in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', head)[0])
    size = f'width="{width * SCALE:.0f}" height="{height * SCALE:.0f}" viewBox="0 0 {width} {height}"'
    svg = f'<svg {size} role="img" aria-label="{html.escape(label)}">{_without_names(body)}'
    svg = re.sub(r"'DejaVu Sans'(?:[^;\"]*sans-serif)?", "var(--font)", svg.replace("xlink:href=", "href="))
    for colour, variable in COLOURS.items():
        svg = svg.replace(colour, variable)
    return Markup(svg)  # made by matplotlib, which has escaped it


def _without_names(body: str) -> str:
    """Leave only the names that something points to: a page may hold a name once, and has many drawings."""
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', body))
    return re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", body)
