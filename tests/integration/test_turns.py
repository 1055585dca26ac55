"""``run.turn``: a model's answer and its calls, over several lives; the model is a function of the messages it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import tool
from tests.integration.engine_support import Crash, Outside, live, mailer, open_engine, statuses

Reply = dict[str, Any]


def says(text: str, *calls: Reply) -> Reply:
    """Return an answer in the plain form."""
    return {"content": text, "tool_calls": list(calls)}


def mail(to: str, body: str = "", **more: Any) -> Reply:
    """Return a call of ``send``, with an id as providers give one."""
    return {"id": f"call-{to}-{body}", "name": "send", "args": {"to": to, "body": body, **more}}


class Model:
    """A model that answers by a function of the conversation, and counts how often it was asked."""

    def __init__(self, answer: Callable[[list[Any]], Any]) -> None:
        self.answer = answer
        self.asked = 0

    def __call__(self, messages: list[Any]) -> Any:
        self.asked += 1
        return self.answer(messages)


def told(messages: list[Any]) -> list[str]:
    """Return what the model was told of its calls, in order."""
    return [str(item["content"]) for item in messages if item.get("role") == "tool"]


def loop(run: Any, model: Model, *, crash_after: int | None = None) -> list[str]:
    """Drive a model until it asks for nothing more; return what it was told."""
    messages: list[Any] = [{"role": "user", "content": "go"}]
    turns = 0
    while True:
        turn = run.turn("agent", model, messages)
        messages += turn.messages
        if not turn.calls:
            return told(messages)
        for call in turn.calls:
            messages += turn.result_messages([turn.call(call)])
            turns += 1
            if turns == crash_after:
                raise Crash


def by_turns(*answers: Reply) -> Model:
    """Return a model that gives these answers one after another, and then is done."""

    def answer(messages: list[Any]) -> Any:
        said = sum(1 for item in messages if item.get("role") == "assistant")
        return answers[said] if said < len(answers) else says("done")

    return Model(answer)


def test_the_answer_and_all_its_calls_are_stored_together_and_each_is_made_once(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])
    model = by_turns(says("", mail("a"), mail("b"), mail("c")))
    assert live(tmp_path, lambda run: [send, loop(run, model, crash_after=1)]).status == "failed"
    assert outside.sent == ["a:"]
    assert list(statuses(tmp_path).values()).count("cancelled") == 2
    done = live(tmp_path, lambda run: [send, loop(run, model)][1], resume=True)
    assert done.result == ["sent 1", "sent 2", "sent 3"]
    assert outside.sent == ["a:", "b:", "c:"]
    assert model.asked == 2  # each of the two turns once, over two lives


def test_a_call_of_a_turn_keeps_its_row_whatever_the_others_do(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    model = by_turns(says("", mail("a", "x"), mail("b", "y")))

    def backwards(run: Any) -> Any:
        turn = run.turn("agent", model, [{"role": "user", "content": "go"}])
        return [turn.call(call).text for call in reversed(turn.calls)]

    live(tmp_path, lambda run: [send, loop(run, model, crash_after=2)])
    assert live(tmp_path, lambda run: [send, backwards(run)][1], resume=True).result == ["sent 2", "sent 1"]
    assert outside.sent == ["a:x", "b:y"]


def test_a_model_that_repeats_itself_is_told_what_was_done_and_may_ask_for_one_more(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])
    model = by_turns(
        says("", mail("a", "x")),
        says("", {**mail("a", "reworded"), "id": "second"}),
        says("", {**mail("a", "reworded", repeat_of="r1.2"), "id": "third"}),
        says("", {**mail("a", "again", repeat_of="r1.2"), "id": "fourth"}),
    )

    def main(run: Any) -> Any:
        return [send, loop(run, model)][1]

    done = live(tmp_path, main)
    first, challenged, on_purpose, cited_twice = done.result
    assert first == "sent 1"
    assert "r1.2" in challenged
    assert '"repeat_of": "r1.2"' in challenged
    assert on_purpose == "sent 2"
    assert "the newest is r1.6" in cited_twice
    assert outside.sent == ["a:x", "a:reworded"]
    assert done.challenged == 2


def test_a_challenge_is_told_in_the_same_words_in_every_life(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])
    model = by_turns(says("", mail("a", "x")), says("", mail("a", "y")), says("", mail("b")))
    live(tmp_path, lambda run: [send, loop(run, model, crash_after=2)])
    asked = model.asked
    done = live(tmp_path, lambda run: [send, loop(run, model)][1], resume=True)
    assert done.status == "succeeded"
    assert model.asked == asked + 2
    assert outside.sent == ["a:x", "b:"]


def test_two_identical_calls_of_one_turn_are_not_both_made(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)
    twin = {**mail("a"), "id": "twin"}
    model = by_turns(says("", mail("a"), twin), says("", {**mail("a", repeat_of="r1.2"), "id": "third"}))
    done = live(tmp_path, lambda run: [send, loop(run, model)][1])
    assert outside.sent == ["a:", "a:"]
    assert "This was done before" in done.result[1]
    assert done.result[2] == "sent 2"


def test_what_a_compacted_conversation_has_lost_is_not_done_again(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])

    def main(run: Any) -> Any:
        assert send is not None
        talk: list[Any] = [{"role": "user", "content": "go"}]
        turn = run.turn("agent", lambda _: says("", mail("a", "x")), talk)
        talk += [*turn.messages, *turn.results()]
        compacted = [{"role": "user", "content": "go on; earlier you have worked a little"}]
        turn = run.turn("agent", lambda _: says("", mail("a", "x"), mail("a", "y")), compacted)
        return [turn.call(call).text for call in turn.calls]

    equal, reworded = live(tmp_path, main).result
    assert equal.startswith("[send was done at ")
    assert "nothing was done now" in equal
    assert equal.endswith("sent 1")
    assert "This was done before" in reworded
    assert outside.sent == ["a:x"]


def test_a_compacted_conversation_is_met_again_in_the_next_life(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])
    model = Model(lambda messages: says("", mail("a", "x")) if len(messages) == 1 else says("done"))

    def main(run: Any) -> Any:
        assert send is not None
        talk: list[Any] = [{"role": "user", "content": "go"}]
        first = run.turn("agent", model, talk)
        talk += [*first.messages, *first.results()]
        second = run.turn("agent", model, [{"role": "user", "content": "compacted"}])
        texts = [first.call(first.calls[0]).text, second.call(second.calls[0]).text]
        if run.attempt == 1:
            raise Crash
        return texts

    live(tmp_path, main)
    done = live(tmp_path, main, resume=True)
    assert done.result[0] == "sent 1"
    assert done.result[1].endswith("nothing was done now]\nsent 1")
    assert model.asked == 2
    assert outside.sent == ["a:x"]


def test_another_prompt_after_a_deploy_meets_what_the_old_one_did(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])
    live(tmp_path, lambda run: [send, loop(run, by_turns(says("", mail("a", "x"))), crash_after=1)])

    def deployed(run: Any) -> Any:
        assert send is not None
        turn = run.turn("agent", lambda _: says("", mail("a", "x"), mail("b")), [{"role": "user", "content": "v2"}])
        return [turn.call(call).text for call in turn.calls]

    texts = live(tmp_path, deployed, resume=True).result
    assert texts[0].startswith("[send was done at ")
    assert texts[1] == "sent 2"
    assert outside.sent == ["a:x", "b:"]


def test_code_that_calls_the_tools_itself_meets_what_a_turn_did(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])
    model = by_turns(says("", mail("a", "x"), mail("b", "y")))

    def deployed(run: Any) -> Any:
        turn = run.turn("agent", model, [{"role": "user", "content": "go"}])
        return [run.call(call.name, **call.args) for call in turn.calls]

    live(tmp_path, lambda run: [send, loop(run, model, crash_after=1)])
    assert live(tmp_path, lambda run: [send, deployed(run)][1], resume=True).result == ["sent 1", "sent 2"]
    assert outside.sent == ["a:x", "b:y"]


def test_a_call_that_needs_consent_waits_for_it_and_goes_on(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, approval="always")
    model = by_turns(says("", mail("a")))

    def main(run: Any) -> Any:
        return [send, loop(run, model)][1]

    assert live(tmp_path, main).reason == "approval"
    with open_engine(tmp_path) as engine:
        ((_, item),) = engine.inbox()
        engine.approve(item.id)
    assert live(tmp_path, main, resume=True).result == ["sent 1"]
    assert model.asked == 2


def test_async_turns_run_side_by_side_and_are_met_in_the_next_life(tmp_path: Path) -> None:
    outside = Outside()

    @tool(name="send", side_effect_class="external", scope=["to"])
    async def send(to: str, body: str = "") -> str:
        await asyncio.sleep(0)
        outside.sent.append(f"{to}:{body}")
        return f"sent to {to}"

    model = by_turns(says("", mail("a"), mail("b"), mail("c")))

    async def main(run: Any) -> Any:
        assert send is not None
        turn = await run.turn("agent", model, [{"role": "user", "content": "go"}])
        results = await asyncio.gather(*(turn.call(call) for call in turn.calls))
        if run.attempt == 1:
            raise Crash
        return [result.text for result in results]

    live(tmp_path, main)
    done = live(tmp_path, main, resume=True)
    assert done.result == ["sent to a", "sent to b", "sent to c"]
    assert sorted(outside.sent) == ["a:", "b:", "c:"]
    assert model.asked == 1


def test_twins_in_two_loops_are_both_made_and_both_met(tmp_path: Path) -> None:
    outside = Outside()

    @tool(name="send", side_effect_class="external")
    async def send(to: str, body: str = "") -> str:
        await asyncio.sleep(0)
        outside.sent.append(to)
        return f"mail {len(outside.sent)}"

    async def one(run: Any, name: str) -> Any:
        turn = await run.turn(name, lambda _: says("", mail("a")), [])
        return (await turn.call(turn.calls[0])).text

    async def main(run: Any) -> Any:
        assert send is not None
        texts = await asyncio.gather(one(run, "left"), one(run, "right"))
        if run.attempt == 1:
            raise Crash
        return sorted(texts)

    live(tmp_path, main)
    sent = len(outside.sent)
    done = live(tmp_path, main, resume=True)
    assert done.status == "succeeded"
    assert len(outside.sent) == sent


def test_a_memo_does_not_hide_what_a_turn_inside_it_did_and_nobody_asked_for_again(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)

    def main(run: Any) -> Any:
        def body() -> str:
            turn = run.turn("agent", lambda _: says("", mail("a")), [])
            if run.attempt == 1:
                turn.results()
                raise KeyboardInterrupt
            return "nothing more"

        done = [send.name, run.memo("work", body)][1]
        if run.attempt == 2:
            raise Crash
        return done

    with pytest.raises(KeyboardInterrupt):
        live(tmp_path, main)
    assert live(tmp_path, main, resume=True).unmet == 1
    done = live(tmp_path, main, resume=True)
    assert done.result == "nothing more"
    assert done.unmet == 1
