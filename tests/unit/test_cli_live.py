"""The block at the bottom of a terminal, on a terminal that is only as clever as it must be."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from perdure.cli import progress
from perdure.cli.live import Above, Block, can_redraw, speaks_unicode
from perdure.model.run import Waiting
from perdure.runtime.watching import Bar, Progress
from tests.unit.test_cli_output import Terminal

NOW = Progress(
    run_id="w47", name="report", status="running", reason=None, attempt=2, owner_pid=41, gone_pid=None, phase="send",
    step="mail", call={"tool_call_id": "w47.3", "tool_name": "send_mail", "status": "running", "attempt": 2, "for_seconds": 61.0},
    active_seconds=125.0, total_seconds=3_725.0, calls={"succeeded": 2, "running": 1},
    bars=(Bar("minutes", 45.0, 90.0), Bar("calls", 300.0, 250.0)), waits=(), resume_command="perdure resume w47",
)  # fmt: skip
WAITS = Waiting("approval", "a1", "w47.3", "send_mail", "2026", "send it?", ("perdure approve a1", "perdure deny a1"))


def screen(written: str, columns: int) -> list[str]:
    """Return what stands on a terminal after all of that was written to it: a very small emulator."""
    lines, row, column = [""], 0, 0
    for token in re.findall(r"\x1b\[\d*[A-Z]|.|\n", written, re.DOTALL):
        if token == "\n":
            row, column = row + 1, 0
            lines.extend([""] * (row + 1 - len(lines)))
        elif token == "\r":
            column = 0
        elif token.endswith("A") and token[0] == "\x1b":
            row = max(0, row - int(token[2:-1]))
        elif token == "\x1b[J":
            lines[row:] = [lines[row][:column]]
        else:
            assert token[0] != "\x1b", token
            if column == columns:
                row, column = row + 1, 0
                lines.extend([""] * (row + 1 - len(lines)))
            lines[row] = lines[row][:column].ljust(column) + token + lines[row][column + 1 :]
            column += 1
    return lines


def test_a_block_is_drawn_in_its_place_and_leaves_nothing_behind() -> None:
    stream = Terminal()
    block = Block(stream, lambda _: (30, 10))
    block.draw(["one", "two", "three"])
    block.draw(["four"])
    assert screen(stream.getvalue(), 30) == ["four", ""]
    block.erase()
    assert screen(stream.getvalue(), 30) == [""]


def test_what_is_printed_meanwhile_stands_above_the_block_whole() -> None:
    stream = Terminal()
    block = Block(stream, lambda _: (30, 10))
    out = Above(stream, block)
    block.draw(["block"])
    out.write("the agent ")
    block.draw(["never inside of a line"])
    out.writelines(["talks\n", ""])
    block.draw(["block again"])
    assert screen(stream.getvalue(), 30) == ["the agent talks", "block again", ""]
    assert out.isatty()


@pytest.mark.parametrize("narrower", [7, 12, 29])
def test_a_terminal_that_becomes_narrower_is_cleaned_all_the_same(narrower: int) -> None:
    stream, size = Terminal(), [(40, 10)]
    block = Block(stream, lambda _: size[0])
    block.draw(["x" * 39, "y" * 30])
    wrapped = "".join(
        f"{line[at : at + narrower]}\n" for line in ("x" * 39, "y" * 30) for at in range(0, len(line), narrower)
    )
    size[0] = (narrower, 10)
    before = len(stream.getvalue())
    block.draw(["short"])
    assert screen(wrapped + stream.getvalue()[before:], narrower) == ["short", ""]


def test_a_block_is_never_larger_than_the_terminal() -> None:
    stream = Terminal()
    Block(stream, lambda _: (20, 5)).draw(["日本語" * 9, *"abcdefgh"])
    shown = screen(stream.getvalue(), 20)
    assert len(shown) == 5
    assert max(map(len, shown)) < 20


def test_the_block_says_where_the_run_is() -> None:
    assert progress.block(NOW, unicode=True) == [
        "w47  report  running · life 2 · process 41 · active 2m05s of 1h02m",
        "  step    send / mail",
        "  call    w47.3 send_mail: running, attempt 2 (1m01s)",
        "  calls   1 running · 2 succeeded",
        "  minutes ██████████░░░░░░░░░░ 45.0 of 90",
        "  calls   ████████████████████ 300 of 250",
        "  resume  perdure resume w47",
    ]


def test_the_block_in_ascii_and_with_what_waits() -> None:
    waiting = replace(
        NOW, status="waiting", reason="approval", owner_pid=None, waits=(WAITS,), bars=NOW.bars[:1], call=None
    )
    lines = progress.block(replace(waiting, error="Oops: \x1b[2J"), unicode=False)
    assert "".join(lines).isascii()
    assert lines[0] == "w47  report  waiting (approval) | life 2 | active 2m05s of 1h02m"
    assert "  minutes ##########---------- 45.0 of 90" in lines
    assert lines[-5:] == [
        "  error   Oops: \\x1b[2J",
        "  waits   send it?",
        "          perdure approve a1",
        "          perdure deny a1",
        "  resume  perdure resume w47",
    ]


def test_an_owner_that_is_gone_is_said_to_be() -> None:
    lines = progress.block(replace(NOW, owner_pid=None, gone_pid=41), unicode=True)
    assert "its process 41 is gone" in lines[0]
    assert lines[-1] == "  resume  perdure resume w47"


@pytest.mark.parametrize(("term", "drawn"), [("xterm", True), ("dumb", False), ("", False)])
def test_a_block_needs_a_terminal_that_can_move_its_cursor(term: str, drawn: bool) -> None:
    assert can_redraw(Terminal(), {"TERM": term}) is drawn
    assert not can_redraw(io.StringIO(), {"TERM": term})
    assert not can_redraw(None, {"TERM": "xterm"})


@pytest.mark.parametrize(
    ("encoding", "speaks"), [("utf-8", True), ("ascii", False), ("latin-1", False), ("cp437", False)]
)
def test_what_a_terminal_cannot_write_is_drawn_in_ascii(encoding: str, speaks: bool) -> None:
    assert speaks_unicode(io.TextIOWrapper(io.BytesIO(), encoding=encoding)) is speaks
