"""Draw a table of transitions as an SVG picture, so that the pages need no program of a browser to show it.

Where a state stands is chosen by hand; which arrows there are, and what they are called, comes from the table alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from html import escape
from typing import Any

Place = tuple[float, float]
CALL_PLACES: Mapping[str, Place] = {
    "prepared": (0, 1.3),
    "awaiting_approval": (0, 3),
    "running": (2.1, 0.1),
    "in_doubt": (4.2, 1.9),
    "succeeded": (4, -0.7),
    "failed": (2.3, 3.3),
    "cancelled": (1.35, 4.3),
    "abandoned": (4.3, 3.7),
}
RUN_PLACES: Mapping[str, Place] = {
    "queued": (0, 0.9),
    "running": (2, 0.3),
    "waiting": (1.2, 2),
    "succeeded": (4, -0.2),
    "failed": (3.6, 2),
    "cancelled": (2.1, 3.4),
}
_COLUMN, _ROW, _MARGIN = 205, 112, 96
_BOX_WIDTH, _BOX_HEIGHT = 148, 34
_BEND = 0.16
_ALONG = 0.36  # words stand nearer to where an arrow begins, so that those of two arrows do not meet
_STYLE = (
    "text{font:13px system-ui,sans-serif;text-anchor:middle;dominant-baseline:central}"
    ".s{font-weight:600}.e{font-size:11px;fill:#444}.h{font-size:11px;stroke:#fff;stroke-width:4px}"
    "rect{fill:#eef4ff;stroke:#3a5a98;rx:8px}.end{fill:#f1f1f1;stroke:#777}path{fill:none;stroke:#8895ad}"
)


def drawn(
    table: Mapping[tuple[Any, Any], StrEnum], places: Mapping[str, Place], ends: Iterable[str], title: str
) -> str:
    """Return the picture of a table.

    Args:
        table: from (state, event) to the next state.
        places: column and row of every state.
        ends: the states that are drawn as ends.
        title: what a reader without eyes is told.

    Raises:
        KeyError: a state of the table has no place.
    """
    arrows: dict[tuple[str, str], list[str]] = {}
    for (state, event), after in table.items():
        arrows.setdefault((str(state), str(after)), []).append(str(event))
    at = {name: _spot(places, name) for name in {name for pair in arrows for name in pair}}
    width = max(x for x, _ in at.values()) + _MARGIN
    height = max(y for _, y in at.values()) + _MARGIN / 2
    ended = set(ends)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        '<rect width="100%" height="100%" style="fill:#fff;stroke:none"/>',
        '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 10 5 0 10z" style="fill:#8895ad"/></marker></defs>',
    ]
    lines = [_arrow(at[start], at[end], start == end, names) for (start, end), names in sorted(arrows.items())]
    parts += [line for line, _ in lines]
    parts += [_box(at[name], name, name in ended) for name in sorted(at)]
    parts += [label for _, label in lines]
    return "\n".join([*parts, "</svg>", ""])


def _spot(places: Mapping[str, Place], name: str) -> Place:
    lowest = min(row for _, row in places.values())
    column, row = places[name]
    return _MARGIN + column * _COLUMN, _MARGIN / 2 + (row - lowest) * _ROW


def _box(at: Place, name: str, is_end: bool) -> str:
    x, y = at
    kind = ' class="end"' if is_end else ""
    corner = f'x="{x - _BOX_WIDTH / 2:.0f}" y="{y - _BOX_HEIGHT / 2:.0f}"'
    return (
        f'<rect {corner} width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}"{kind}/>'
        f'<text class="s" x="{x:.0f}" y="{y:.0f}">{escape(name)}</text>'
    )


def _arrow(start: Place, end: Place, is_loop: bool, names: list[str]) -> tuple[str, str]:
    """Return a bent arrow from the rim of one box to that of another, and its words."""
    if is_loop:
        x, y = start[0], start[1] - _BOX_HEIGHT / 2
        path = f"M{x - 30:.0f} {y:.0f}C{x - 40:.0f} {y - 40:.0f} {x + 40:.0f} {y - 40:.0f} {x + 30:.0f} {y:.0f}"
        return f'<path d="{path}" marker-end="url(#a)"/>', _words((x, y - 32), names)
    (x1, y1), (x2, y2) = start, end
    bend = (x1 + x2) / 2 - (y2 - y1) * _BEND, (y1 + y2) / 2 + (x2 - x1) * _BEND
    (x1, y1), (x2, y2) = _rim(start, bend), _rim(end, bend)
    path = f"M{x1:.0f} {y1:.0f}Q{bend[0]:.0f} {bend[1]:.0f} {x2:.0f} {y2:.0f}"
    early, between, late = (1 - _ALONG) ** 2, 2 * _ALONG * (1 - _ALONG), _ALONG**2
    at = early * x1 + between * bend[0] + late * x2, early * y1 + between * bend[1] + late * y2
    return f'<path d="{path}" marker-end="url(#a)"/>', _words(at, names)


def _words(at: Place, names: list[str]) -> str:
    place, said = f'x="{at[0]:.0f}" y="{at[1]:.0f}"', escape(", ".join(names))
    return f'<text class="h" {place}>{said}</text><text class="e" {place}>{said}</text>'


def _rim(box: Place, towards: Place) -> Place:
    """Return where the line from a box's middle towards a point leaves the box."""
    across, down = towards[0] - box[0], towards[1] - box[1]
    if math.hypot(across, down) == 0:
        return box
    scale = min(
        (_BOX_WIDTH / 2 + 3) / abs(across) if across else math.inf,
        (_BOX_HEIGHT / 2 + 3) / abs(down) if down else math.inf,
    )
    return box[0] + across * scale, box[1] + down * scale
