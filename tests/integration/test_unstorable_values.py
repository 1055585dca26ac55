"""A value that has no JSON form is told with its place: which run, which call, which part, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import tool
from tests.integration.engine_support import open_engine


class Thing:
    """Has no JSON form."""


@tool(side_effect_class="external", scope=["to"])
def send(to: str, body: object = "") -> object:
    """Return what cannot be stored."""
    return {"ids": [1, Thing()]}


def warned(folder: Path, main: Callable[[Any], Any]) -> list[str]:
    with open_engine(folder) as engine, pytest.warns(RuntimeWarning) as caught:
        assert engine.run(main, run_id="w47").status == "succeeded"
    return [str(item.message).removeprefix("perdure: ") for item in caught]


def test_a_result_that_is_kept_as_its_repr_is_told_once_with_its_run_its_call_and_the_part(tmp_path: Path) -> None:
    def main(_run: Any) -> str:
        for number in range(3):
            send(str(number))
        return "done"

    assert warned(tmp_path, main) == [
        "run w47, call w47.1 of send: result.ids[1] is of type Thing, which has no JSON form; what is stored is the repr of "
        "the result, a text: let send return JSON-like values, a dataclass or a pydantic model"
    ]


@pytest.mark.parametrize(
    ("main", "where"),
    [
        (lambda run: repr(run.memo("draft", Thing)), "run w47, call w47.1 of memo draft: result is of type Thing"),
        (lambda _run: {"x": Thing()}, "run w47, main: result.x is of type Thing"),
    ],
)
def test_a_memo_and_main_are_named_too(tmp_path: Path, main: Callable[[Any], Any], where: str) -> None:
    (said,) = warned(tmp_path, main)
    assert said.startswith(f"{where}, which has no JSON form; ")


@pytest.mark.parametrize(
    ("main", "says"),
    [
        (
            lambda _run: send("ann", body={"k": Thing()}),
            "send was not called: its argument body.k is of type Thing, which",
        ),
        (
            lambda run: run.memo("draft", str, Thing()),
            "run.memo('draft') was not run: one of its arguments is of type Thing",
        ),
        (lambda run: run.turn("ask", str, [{"a": 1}], key=Thing()), "run.turn('ask') was not run: one of its"),
        (lambda _run: send(), "send(): missing a required argument: 'to'"),
    ],
)
def test_a_refused_call_is_told_with_its_tool_and_the_line_of_the_program(
    tmp_path: Path, main: Callable[[Any], Any], says: str
) -> None:
    with open_engine(tmp_path) as engine:
        found = engine.run(main, run_id="w47")
        assert engine.calls("w47", inner=True) == []
    assert found.status == "failed"
    assert found.error_detail is not None
    assert found.error_detail.startswith(says)
    assert "(test_unstorable_values.py:" in found.error_detail
