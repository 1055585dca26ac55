"""A script under a run: its budgets, its critic, and its end by somebody else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import SpecError
from tests.integration.engine_support import FAST, Outside, mailer, open_engine


@pytest.fixture
def outside() -> Outside:
    return Outside()


def test_a_script_has_budgets_and_a_critic_and_ends_plainly_where_one_is_used_up(
    tmp_path: Path, outside: Outside, capsys: pytest.CaptureFixture[str]
) -> None:
    send, seen = mailer(outside), list[str]()

    def look(view: Any) -> None:
        seen.append(view.phase)

    def script() -> int | str | None:
        try:
            budgets = {"max_tool_calls": 2}
            where = {"state_dir": tmp_path, "tuning": FAST}
            with perdure.run_scope("week", budgets=budgets, critic=look, **where) as run:
                for phase in ("draft", "send", "tell"):
                    with run.step(phase, phase=phase):
                        send(phase)
        except perdure.ScopeLeft as left:
            return left.code
        return 0

    assert script() == 6
    assert (outside.sent, seen) == (["draft:", "send:"], ["draft", "send"])
    assert "  go on with: perdure resume week --grant calls=2" in capsys.readouterr().err
    with perdure.open(state_dir=tmp_path) as engine:
        engine.grant("week", {"calls": 2})
        assert engine.outcome("week").resume_command == "start the script again that has run_scope('week')"
    assert script() == 0
    assert (len(outside.sent), seen) == (3, ["draft", "send", "tell"])


def test_budgets_of_a_script_are_checked_as_those_of_a_job(tmp_path: Path) -> None:
    with open_engine(tmp_path) as engine, pytest.raises(SpecError) as refused:
        engine.scope("week", budgets={"max_tool_calls": 0, "max_call": 3})
    assert refused.value.message.startswith("budgets.max_tool_calls: ")
    assert "\nbudgets.max_call: " in refused.value.message


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_script_whose_run_is_cancelled_leaves_its_body_at_the_next_call(
    tmp_path: Path, outside: Outside, form: str
) -> None:
    send, left, where = mailer(outside), list[Any](), {"state_dir": tmp_path, "tuning": FAST}

    def cancel() -> None:
        with perdure.open(state_dir=tmp_path) as other:
            other.cancel("week", actor="ann")

    def script() -> None:
        with perdure.run_scope("week", **where):
            send("a")
            cancel()
            send("b")

    async def ascript() -> None:
        async with perdure.run_scope("week", **where) as run:
            await run.call(send, "a")
            await asyncio.to_thread(cancel)
            await run.call(send, "b")

    for _ in range(2):
        with pytest.raises(perdure.ScopeLeft) as ended:
            asyncio.run(ascript()) if form == "async" else script()
        left.append(ended.value.code)
    assert (left, outside.sent) == ([11, 11], ["a:"])
