"""Values with a shape, and what gives them back."""

from __future__ import annotations

from dataclasses import dataclass

from perdure import tool


@dataclass(frozen=True)
class Page:
    """A page."""

    url: str
    words: int


@dataclass(frozen=True)
class Report:
    """A report of pages."""

    title: str
    pages: list[Page]


@tool(side_effect_class="read_only")
def fetch_page(url: str) -> Page:
    """Return a page."""
    return Page(url, 3)


def make_report(page: Page) -> Report:
    """Return a report of one page."""
    return Report("R", [page])
