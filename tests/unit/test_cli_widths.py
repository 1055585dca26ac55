"""Tables and lines that fit a terminal."""

from __future__ import annotations

import pytest

from perdure.cli.output import Output
from perdure.cli.widths import display_width, fitted, narrowed
from tests.unit.test_cli_output import Terminal


@pytest.mark.parametrize(("text", "width"), [("", 0), ("abc", 3), ("ü", 1), ("u\u0308", 1), ("日本", 4), ("…", 1)])
def test_the_width_of_text_is_what_a_terminal_gives_it(text: str, width: int) -> None:
    assert display_width(text) == width


@pytest.mark.parametrize(
    ("text", "width", "found"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本語", 4, "日…"),
        ("日本語", 6, "日本語"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_text_that_does_not_fit_ends_in_a_mark(text: str, width: int, found: str) -> None:
    assert fitted(text, width) == found
    assert display_width(found) <= max(width, 0)


@pytest.mark.parametrize(
    ("widths", "least", "room", "found"),
    [
        ([5, 9], [5, 4], 20, [5, 9]),
        ([5, 30, 10], [5, 4, 4], 30, [5, 15, 10]),
        ([5, 30, 28], [5, 4, 4], 25, [5, 10, 10]),
        ([30, 30], [30, 6], 10, [30, 6]),
    ],
)
def test_the_widest_columns_give_way(widths: list[int], least: list[int], room: int, found: list[int]) -> None:
    assert narrowed(widths, least, room) == found


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200])
def test_no_line_of_a_table_is_wider_than_its_terminal_and_no_id_is_cut(columns: int) -> None:
    rows = [("report-w47.12", "send_mail_to_everybody_at_once", "x" * 90), ("r.1", "fetch", None)]
    text = Output("table", stdout=Terminal(), environ={"NO_COLOR": "1"}, width=columns).table(
        ("CALL", "TOOL", "ERROR"), rows
    )
    assert "report-w47.12" in text
    if columns >= 40:
        assert max(len(line) for line in text.splitlines()) <= columns
