"""Rules of budgets, constraints and escalation broken on purpose: what is sent outside then shows that each is needed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import Outcome, ToolFailed, tool
from perdure.core import conditions
from perdure.runtime import limits
from tests.integration.engine_support import Outside, mailer
from tests.integration.job_support import Job


def over_the_limit(folder: Path, outside: Outside) -> Outcome:
    send = mailer(outside)
    return Job(folder, "budgets: {max_tool_calls: 1}").life(lambda run: [send("a"), send("b")])


def resumed_at_the_limit(folder: Path, outside: Outside) -> Outcome:
    """The program is another one in the second life, and would send something else first."""
    job, send = Job(folder, "budgets: {max_tool_calls: 1}"), mailer(outside, repeat="allow")
    job.life(lambda run: [send("a"), send("b")])

    def main(run: Any) -> None:
        outside.sent.append("entered")

    return job.life(main)


def to_a_stranger(folder: Path, outside: Outside) -> Outcome:
    send = mailer(outside)
    job = Job(folder, "constraints: {allowed_domains: [good.example]}")

    def main(run: Any) -> None:
        outside.sent.append("main")
        send("boss@evil.example")

    return job.life(main)


def beside_a_question(folder: Path, outside: Outside) -> Outcome:
    send, asked = mailer(outside), list[int]()

    @tool(name="knock", side_effect_class="external")
    async def knock() -> None:
        asked.append(1)
        raise ToolFailed("401", kind="auth")

    async def main(run: Any) -> None:
        async def sibling() -> None:
            while not any(item.parked == "question" for item in run.door.life.operations):
                await asyncio.sleep(0)
            await run.call(send, "sibling")

        outside.sent.append("main")
        await asyncio.gather(run.call(knock), sibling())

    return Job(folder, "escalation: {ask_human_on_auth_failure: true}").life(main)


RULES: dict[str, tuple[Any, str, Any, Any, int]] = {
    "a used-up limit holds nothing": (limits, "over_budget", lambda life, store, wants: False, over_the_limit, 1),
    "a resume without a grant enters": (limits, "barred", lambda life, store: None, resumed_at_the_limit, 1),
    "nobody looks where arguments lead": (conditions, "constraint_problems", lambda *a: [], to_a_stranger, 1),
    "others go on beside a question": (limits, "_still_escalated", lambda life, store: False, beside_a_question, 1),
}


@pytest.mark.parametrize("rule", RULES)
def test_without_the_rule_more_happens_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    module, name, broken, scene, expected = RULES[rule]
    kept, lost = Outside(), Outside()
    scene(tmp_path / "kept", kept)
    monkeypatch.setattr(module, name, broken)
    scene(tmp_path / "broken", lost)
    assert len(kept.sent) == expected
    assert len(lost.sent) == expected + 1
