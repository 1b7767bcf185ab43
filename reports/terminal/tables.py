"""Tables on a terminal: rich's box lines in colour, plain ASCII without."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from reports.safe_text import ascii_only, visible


def grid(colour: bool, *, lines: bool = False, footer: bool = False) -> Table:
    """An empty table. ``lines`` separates the rows of one without colour, for cells of several lines."""
    return Table(
        box=box.SIMPLE_HEAD if colour else box.ASCII2,
        pad_edge=not colour,
        show_lines=lines and not colour,
        show_footer=footer,
        safe_box=not colour,
    )


def plain(text: str, limit: int, colour: bool) -> Text:
    """Text for a cell; made ASCII before layout when not in colour, so that escapes do not break the lines of a table."""
    shown = visible(text, limit)
    return Text(shown if colour else ascii_only(shown))
