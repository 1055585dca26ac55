"""What a model's answers may look like, and what becomes of calls that cannot be made as it wrote them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from perdure import UsageError, tool
from tests.integration.engine_support import Outside, live, mailer, open_engine, statuses
from tests.integration.test_turns import by_turns, loop, mail, says


def test_what_cannot_be_called_is_told_to_the_model_and_stands_in_the_ledger(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    model = by_turns(
        says("", {"name": "no_such", "args": {}}, {"name": "send", "args": {"whom": "a"}}),
        {"content": None, "tool_calls": [{"id": "c", "function": {"name": "send", "arguments": "{not json"}}]},
    )
    done = live(tmp_path, lambda run: [send, loop(run, model)][1])
    assert done.status == "succeeded"
    assert "there is no tool 'no_such' here; the tools are: send" in done.result[0]
    assert "send: to: Field required" in done.result[1]
    assert "send has no argument 'whom'; its arguments are: to, body" in done.result[1]
    assert "no JSON" in done.result[2]
    assert list(statuses(tmp_path).values()).count("failed") == 3
    assert outside.sent == []


def test_a_model_may_use_only_what_it_was_offered(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)

    @tool(side_effect_class="read_only")
    def look(at: str) -> str:
        return f"looked at {at}"

    def main(run: Any) -> Any:
        asked = says("", mail("a"), {"name": "look", "args": {"at": "it"}})
        turn = run.turn("agent", lambda _: asked, [], tools=[look])
        return [(result.is_error, result.text) for result in map(turn.call, turn.calls)]

    done = live(tmp_path, main, tools=[send])
    assert done.result == [(True, "there is no tool 'send' here; the tools are: look"), (False, "looked at it")]
    assert outside.sent == []


@pytest.mark.parametrize(
    ("answer", "text", "told_to"),
    [
        ({"choices": [{"message": {"content": "hm", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}]}}]},
         "hm", [{"role": "tool", "tool_call_id": "c1", "content": "x!"}]),
        ({"output": [{"type": "message", "content": [{"type": "output_text", "text": "hm"}]},
                     {"type": "function_call", "call_id": "c2", "name": "look", "arguments": '{"at": "x"}'}]},
         "hm", [{"type": "function_call_output", "call_id": "c2", "output": "x!"}]),
        ({"content": [{"type": "text", "text": "hm"},
                      {"type": "tool_use", "id": "c3", "name": "look", "input": {"at": "x"}}]},
         "hm", [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c3", "content": "x!"}]}]),
        ({"content": "hm", "tool_calls": [{"name": "look", "args": {"at": "x"}}]},
         "hm", [{"role": "tool", "tool_call_id": "r1.1-0", "content": "x!"}]),
    ],
    ids=["openai chat", "openai responses", "anthropic", "plain"],
)  # fmt: skip
def test_answers_of_the_known_providers_are_read_and_results_are_told_in_their_form(
    tmp_path: Path, answer: Any, text: str, told_to: list[Any]
) -> None:
    @tool(side_effect_class="read_only")
    def look(at: str) -> str:
        return f"{at}!"

    def main(run: Any) -> Any:
        turn = run.turn("agent", lambda _: answer, [])
        assert turn.text == text
        return turn.results()

    assert live(tmp_path, main, tools=[look]).result == told_to


def test_an_answer_of_no_known_form_is_no_final_answer(tmp_path: Path) -> None:
    done = live(tmp_path, lambda run: run.turn("agent", lambda _: {"wat": 1}, []).text)
    assert (done.status, done.error_code) == ("failed", "CallFailed")
    assert "known form" in (done.error_detail or "")


def test_messages_must_be_a_list(tmp_path: Path) -> None:
    with open_engine(tmp_path) as engine:
        done = engine.run(lambda run: run.turn("agent", str, "go"), run_id="r1")
    assert done.error_code == UsageError.__name__


def test_arguments_have_the_types_of_the_signature_or_the_model_is_told(tmp_path: Path) -> None:
    got: list[Any] = []

    @tool(side_effect_class="external", scope=["to"])
    def pay(to: str, cents: int, when: datetime | None = None) -> str:
        got.append((to, cents, when))
        return "paid"

    def main(run: Any) -> Any:
        wishes = [
            {"to": "a", "cents": "many"},
            {"to": 5, "cents": 5},
            {"to": "b", "cents": "7", "when": "2026-01-02T03:04:05"},
        ]
        turn = run.turn("agent", lambda _: says("", *({"name": "pay", "args": args} for args in wishes)), [])
        return [turn.call(call).text for call in turn.calls]

    words, number, good = live(tmp_path, main, tools=[pay]).result
    assert words.startswith("pay: cents: Input should be a valid integer")
    assert number.startswith("pay: to: Input should be a valid string")
    assert good == "paid"
    assert got == [("b", 7, datetime(2026, 1, 2, 3, 4, 5))]
