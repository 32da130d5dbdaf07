"""A part of the page, and of what is exported: panels, tables, and what must be known to read them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from delira.report.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Section(NamedTuple):
    """What stands under one title."""

    title: str
    panels: Mapping[str, "Figure"]
    """Name of the file to the figure."""
    tables: Sequence[Table]
    notes: Sequence[str]
    only_in_files: Mapping[str, "Figure"] = {}
    """What the page shows in another form."""
