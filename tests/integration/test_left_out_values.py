"""A call that happened by a person's word, and whose value nobody has said: the program gets None, or the run asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import pytest

from perdure import tool
from perdure.model.errors import VerdictRefused
from perdure.model.run import Outcome
from perdure.runtime.returned import returned_type
from tests.integration.engine_support import Outside, live, open_engine

Program = Callable[[Any], Any]


def _paying(outside: Outside) -> Program:
    """Return a program that needs what a payment returned, of which the answer is lost."""

    @tool(side_effect_class="external", scope=["order"])
    def charge(order: str) -> dict[str, str]:
        outside.sent.append(order)
        raise ConnectionResetError(order)

    def main(run: Any) -> str:
        return str(charge("o1")["id"])

    return main


def _told(folder: Path, main: Program) -> Outcome:
    """Lose the outcome of the payment, say that it happened and no more, and live the next life."""
    assert live(folder, main).reason == "in_doubt"
    with open_engine(folder) as engine:
        engine.resolve("r1.1", "happened")
    return live(folder, main)


def _says(folder: Path, **given: Any) -> None:
    with open_engine(folder) as engine:
        engine.resolve("r1.1", "happened", **given)


def test_a_doubt_about_a_tool_that_returns_something_offers_to_say_what(tmp_path: Path) -> None:
    waiting = live(tmp_path, _paying(Outside()))
    said = [command.partition(" --state-dir")[0] for command in waiting.waiting_for[0].commands]
    assert said == [
        "perdure resolve r1.1 --happened",
        "perdure resolve r1.1 --happened --result JSON",
        "perdure resolve r1.1 --did-not-happen",
        "perdure resolve r1.1 --abandon",
    ]


@tool
def unsaid(x: int): ...  # type: ignore[no-untyped-def]
@tool
def nothing(x: int) -> None: ...
@tool
def either(x: int) -> str | None: ...
@tool
def optional(x: int) -> Optional[str]: ...  # noqa: UP045
@tool
def anything(x: int) -> Any: ...
@tool
def unknown(x: int) -> Missing: ...  # type: ignore[name-defined]  # noqa: F821
@tool
def text(x: int) -> str: ...
@tool
def listed(x: int) -> list[str | None]: ...


@pytest.mark.parametrize("called", [unsaid, nothing, either, optional, anything, unknown, None])
def test_a_tool_that_may_return_nothing_asks_for_no_value(called: Any) -> None:
    assert returned_type(called) is None


@pytest.mark.parametrize(("called", "said"), [(text, "str"), (listed, "list[str | None]")])
def test_a_tool_that_always_returns_something_says_what(called: Any, said: str) -> None:
    assert returned_type(called) == said


def test_a_program_that_cannot_do_without_the_value_waits_for_it_and_goes_on_with_it(tmp_path: Path) -> None:
    outside = Outside()
    main = _paying(outside)
    waiting = _told(tmp_path, main)
    assert (waiting.status, waiting.reason, waiting.exit_code) == ("waiting", "question", 6)
    (item,) = waiting.waiting_for
    assert (item.kind, item.tool_call_id) == ("question", "r1.1")
    assert "what did it return (dict[str, str])" in item.summary and "TypeError" in item.summary
    assert [command.partition(" --state-dir")[0] for command in item.commands] == [
        "perdure resolve r1.1 --happened --result JSON",
        "perdure resolve r1.1 --happened --result null",
    ]
    _says(tmp_path, result={"id": "ch1"})
    with open_engine(tmp_path) as engine:
        assert (engine.inbox(), engine.outcome("r1").status) == ([], "queued")
    done = live(tmp_path, main)
    assert (done.status, done.result) == ("succeeded", "ch1")
    assert outside.sent == ["o1"]


def test_a_life_that_still_lacks_the_value_asks_no_second_time(tmp_path: Path) -> None:
    main = _paying(Outside())
    first, again = _told(tmp_path, main), live(tmp_path, main)
    assert [item.id for item in again.waiting_for] == [item.id for item in first.waiting_for]


def test_that_it_returned_nothing_is_an_answer_too_and_the_program_then_fails(tmp_path: Path) -> None:
    main = _paying(Outside())
    _told(tmp_path, main)
    _says(tmp_path, result=None)
    done = live(tmp_path, main)
    assert (done.status, done.error_code) == ("failed", "TypeError")
    with open_engine(tmp_path) as engine, pytest.raises(VerdictRefused, match="is succeeded, not in doubt"):
        engine.resolve("r1.1", "happened", result={"id": "late"})


def test_a_value_that_is_asked_for_is_neither_a_word_nor_left_out_again(tmp_path: Path) -> None:
    (item,) = _told(tmp_path, _paying(Outside())).waiting_for
    with open_engine(tmp_path) as engine:
        with pytest.raises(VerdictRefused, match="what it returned is asked for") as left_out:
            engine.resolve("r1.1", "happened")
        with pytest.raises(VerdictRefused, match="takes no answer in words") as words:
            engine.answer(item.id, "ch1")
    for refused in (left_out, words):
        assert refused.value.next_command.startswith("perdure resolve r1.1 --happened --result JSON")


def test_a_program_that_does_without_the_value_ends_as_it_likes(tmp_path: Path) -> None:
    @tool(side_effect_class="external")
    def send(to: str) -> dict[str, str]:
        raise ConnectionResetError(to)

    done = _told(tmp_path, lambda run: "sent" if send("a") is None else "told")
    assert (done.status, done.result) == ("succeeded", "sent")


def test_a_tool_that_returns_nothing_has_nothing_left_out(tmp_path: Path) -> None:
    @tool(side_effect_class="external")
    def send(to: str) -> None:
        raise ConnectionResetError(to)

    def main(run: Any) -> None:
        send("a")
        raise ValueError("something else")

    assert _told(tmp_path, main).error_code == "ValueError"


def test_a_failed_call_ends_the_run_and_the_error_names_the_value_that_nobody_has_said(tmp_path: Path) -> None:
    @tool(side_effect_class="external")
    def charge(order: str) -> dict[str, str]:
        raise ConnectionResetError(order)

    def main(run: Any) -> Any:
        receipt = charge("o1")
        return run.memo("thanks", lambda: f"paid: {receipt['id']}")

    failed = _told(tmp_path, main)
    assert failed.status == "failed"
    assert "perdure resolve r1.1 --happened --result JSON" in (failed.error_detail or "")
    _says(tmp_path, result={"id": "ch1"})
    assert live(tmp_path, main, resume=True).result == "paid: ch1"


def test_who_cancels_the_run_has_no_value_to_say_any_more(tmp_path: Path) -> None:
    _told(tmp_path, _paying(Outside()))
    with open_engine(tmp_path) as engine:
        engine.cancel("r1")
        assert engine.inbox() == []


def test_an_async_program_waits_for_the_value_as_well(tmp_path: Path) -> None:
    @tool(side_effect_class="external")
    async def charge(order: str) -> dict[str, str]:
        raise ConnectionResetError(order)

    async def main(run: Any) -> str:
        return str((await charge("o1"))["id"])

    assert _told(tmp_path, main).reason == "question"
    _says(tmp_path, result={"id": "ch1"})
    assert live(tmp_path, main).result == "ch1"
