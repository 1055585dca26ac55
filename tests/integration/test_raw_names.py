"""The ledger keeps what a caller called a tool beside the tool's own name (R109)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.engine_support import Crash, Outside, mailer, open_engine


@pytest.mark.parametrize("raw", ["send", "mcp__post__send", "functions.send"])
def test_a_model_may_spell_a_tool_as_its_protocol_does_and_both_names_are_stored(tmp_path: Path, raw: str) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])

    def model(messages: list[Any]) -> Any:
        if len(messages) > 1:
            return "done"
        return {"content": "", "tool_calls": [{"name": raw, "args": {"to": "a"}}]}

    def main(run: Any) -> str:
        messages: list[Any] = [{"role": "user", "content": "go"}]
        turn = run.turn("chat", model, messages, tools=[send])
        messages += [*turn.messages, *turn.results()]
        if run.attempt == 1:
            raise Crash("after the call")
        return str(run.turn("chat", model, messages, tools=[send]).text)

    with open_engine(tmp_path) as engine:
        engine.run(main, run_id="r1")
        found = engine.resume("r1", main=main)
        (call,) = engine.calls("r1")
    assert found.result == "done"
    assert (call["tool_name"], call["raw_tool_name"]) == ("send", raw)
    assert outside.sent == ["a:"]


def test_a_call_under_another_spelling_meets_the_receipt_of_the_same_tool(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])

    def main(run: Any) -> str:
        send.declaration  # noqa: B018 - the tool is reached by its name only
        found = run.call("functions.send" if run.attempt == 1 else "send", to="a")
        if run.attempt == 1:
            raise Crash("after the call")
        return str(found)

    with open_engine(tmp_path) as engine:
        engine.run(main, run_id="r1")
        assert engine.resume("r1", main=main).result == "sent 1"
        (call,) = engine.calls("r1")
    assert (call["tool_name"], call["raw_tool_name"]) == ("send", "functions.send")
    assert outside.sent == ["a:"]
