"""How wide text is on a terminal, and how it is made to fit."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

LEAST_COLUMN = 4
CUT = "…"


def display_width(text: str) -> int:
    """Return how many columns a line takes: wide characters take two, marks that combine none."""
    if text.isascii():
        return len(text)
    return sum(_width(char) for char in text)


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fitted(text: str, width: int, cut: str = CUT) -> str:
    """Return a text that takes at most ``width`` columns; what is cut off is shown by ``cut``."""
    if display_width(text) <= width:
        return text
    kept, left = "", width - len(cut)
    for char in text:
        left -= _width(char)
        if left < 0:
            break
        kept += char
    return (kept + cut)[:width] if width < len(cut) else kept + cut


def narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return column widths that fit into ``room`` together: the widest give way first, down to their least.

    Args:
        widths: what the columns would like.
        least: what they need at least; never less than a few characters, so that something is left to read.
        room: columns for all of them; where the least ones do not fit, lines are longer than the terminal.
    """
    floor = [min(wish, max(need, LEAST_COLUMN)) for wish, need in zip(widths, least, strict=True)]
    found = [max(need, min(wish, room)) for wish, need in zip(widths, floor, strict=True)]
    while sum(found) > room:
        spare = [width if width > need else 0 for width, need in zip(found, floor, strict=True)]
        if not any(spare):
            break
        found[spare.index(max(spare))] -= 1
    return found
