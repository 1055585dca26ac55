"""The report as one HTML file that needs nothing else: no script, no font, no address outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any


def page(document: Mapping[str, Any]) -> str:
    """Return the report of a crash test.

    Args:
        document: ``perdure.crashtest/v1``.
    """
    template = Template(resources.files("perdure.testing.crashtest").joinpath("page.html").read_text("utf-8"))
    points: Sequence[Mapping[str, Any]] = document["points"]
    return template.substitute(
        job=escape(document["job"]),
        verdict=escape(document["verdict"]),
        verdict_class="finished" if document["ok"] else "stuck",
        how=escape(document["how"]),
        command=escape(document["command"]),
        bar="".join(_stroke(point) for point in points),
        tools="\n".join(_tool(tool) for tool in document["tools"]),
        expected="\n".join(_row([item["effect"], item["times"]], code=1) for item in document["expected"]),
        points="\n".join(_point(point) for point in points),
        limits="\n".join(f"<li>{escape(text)}</li>" for text in document["limits"]),
    )


def _stroke(point: Mapping[str, Any]) -> str:
    number, verdict = name_of(point), escape(point["verdict"])
    return f'<a class="{verdict}" href="#p{number}" title="{number}: {verdict}"></a>'


def _tool(tool: Mapping[str, Any]) -> str:
    cells = ("class", "replay_policy", "guarantee", "returns", "advice")
    return _row([tool["tool"], *(tool[cell] or "" for cell in cells)], code=1)


def _point(point: Mapping[str, Any]) -> str:
    reasons = "<br>".join(escape(reason) for reason in point["why"])
    number, verdict = name_of(point), escape(point["verdict"])
    return (
        f'<tr id="p{number}"><td>{number}</td><td class="code">{escape(point["where"] or "")}</td>'
        f'<td class="{verdict}">{escape(point["words"])}</td><td>{int(point["lives"])}</td><td>{reasons}</td></tr>'
    )


def name_of(point: Mapping[str, Any]) -> str:
    """Return what a crash point is called: its number, or nothing where a tool's name said when."""
    return "" if point["point"] is None else str(int(point["point"]))


def _row(cells: Iterable[object], *, code: int) -> str:
    """Return one row of a table; its first ``code`` cells are code."""
    made = (
        f'<td class="code">{escape(str(cell))}</td>' if at < code else f"<td>{escape(str(cell))}</td>"
        for at, cell in enumerate(cells)
    )
    return f"<tr>{''.join(made)}</tr>"
