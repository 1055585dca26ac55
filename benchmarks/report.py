"""Rows of the report, as a table for people or one JSON document."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.measure import Pairs

HEADS = ("what", "figure", "range", "target", "", "detail")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; `at_least` or `at_most` is its target, if it has one."""

    name: str
    figure: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    lowest: float | None = None
    highest: float | None = None
    detail: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.at_least is not None:
            return self.figure >= self.at_least
        return None if self.at_most is None else self.figure <= self.at_most


def row_of(name: str, pairs: Pairs, *, at_least: float | None = None) -> Row:
    """Make the row of a scenario that ran beside its yardstick."""
    middle = pairs.middle
    cpu_seconds_per_1000 = middle.cpu_seconds / middle.calls * 1000
    return Row(
        name,
        pairs.ratio,
        "x",
        at_least=at_least,
        lowest=min(pairs.ratios),
        highest=max(pairs.ratios),
        detail=f"{middle.calls_per_second:,.0f} calls/s, p50 {middle.gap_milliseconds(0.5):.2f} ms, "
        f"p99 {middle.gap_milliseconds(0.99):.2f} ms, CPU {cpu_seconds_per_1000:.2f} s/1,000",
    )


def _number(value: float, unit: str = "") -> str:
    text = f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{text} {unit}".rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    bounds = [("≥", row.at_least), ("≤", row.at_most)]
    target = next((f"{sign} {_number(limit, row.unit)}" for sign, limit in bounds if limit is not None), "")
    spread = ""
    if row.lowest is not None and row.highest is not None:
        spread = f"{_number(row.lowest)} … {_number(row.highest)}"
    verdict = {True: "met", False: "MISSED", None: ""}[row.met]
    return (row.name, _number(row.figure, row.unit), spread, target, verdict, row.detail)


def table(rows: Sequence[Row]) -> str:
    """Lay the rows out in columns."""
    lines = [HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def document(rows: Sequence[Row], options: dict[str, Any]) -> str:
    """Encode the rows as the document `perdure.bench/v1`."""
    machine = {"python": platform.python_version(), "system": platform.platform(), "cpus": os.cpu_count()}
    body = [{**asdict(row), "met": row.met} for row in rows]
    return json.dumps({"schema": "perdure.bench/v1", "machine": machine, "options": options, "rows": body}, indent=1)
