"""What counts as unmet (R5): effects that a program which was entered has not asked for, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure import tool
from perdure.cli.look_cmd import summary
from perdure.runtime.report import run_document
from tests.integration.engine_support import Outside, live, mailer, open_engine
from tests.integration.files_support import report


def _losing(outside: Outside) -> Any:
    """Return a program that sends a mail and then loses the outcome of a payment."""
    send = mailer(outside)

    @tool(side_effect_class="external", scope=["order"])
    def charge(order: str) -> str:
        raise ConnectionResetError(order)

    def main(run: Any) -> str:
        send("a")
        return charge("o1")

    return main


def test_a_life_that_never_entered_its_program_leaves_nothing_unmet(tmp_path: Path) -> None:
    main = _losing(Outside())
    assert live(tmp_path, main).reason == "in_doubt"
    waiting = live(tmp_path, main)
    assert (waiting.attempt, waiting.reason, waiting.replayed, waiting.unmet) == (2, "in_doubt", 0, 0)
    assert "\nunmet" not in summary(waiting, run_document(waiting))


def test_a_run_that_is_cancelled_after_such_a_life_reports_nothing_as_met_or_unmet(tmp_path: Path) -> None:
    main = _losing(Outside())
    live(tmp_path, main)
    live(tmp_path, main)
    with open_engine(tmp_path) as engine:
        engine.cancel("r1")
    found = report(tmp_path)
    assert [call["tool_call_id"] for call in found["effects"]["calls"]] == ["r1.1"]
    assert (found["unmet"]["in_all"], found["replayed"]["in_all"]) == (0, 0)


def test_what_a_parked_program_has_not_reached_yet_is_not_shown_as_unmet(tmp_path: Path) -> None:
    send = mailer(Outside())

    def first(run: Any) -> None:
        send("a")
        raise ValueError

    def second(run: Any) -> str:
        run.ask("go on?")
        return str(send("a"))

    live(tmp_path, first)
    waiting = live(tmp_path, second, resume=True)
    assert waiting.reason == "question"
    assert "\nunmet" not in summary(waiting, run_document(waiting))
