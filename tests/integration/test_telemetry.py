"""Spans for OpenTelemetry: what they tell, how they hang together, and that no outcome depends on them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

from perdure import Probe, ToolFailed, tool
from tests.integration.engine_support import Crash, Outside, mailer, open_engine
from tests.integration.telemetry_support import Kept

SECRET = "the words of the letter"
LIFE = f"invoke_workflow {__name__}"  # the run of a function is called as its module


@pytest.fixture
def kept() -> Kept:
    return Kept()


def parent_of(span: ReadableSpan, spans: list[ReadableSpan]) -> str | None:
    return next((other.name for other in spans if span.parent and other.context.span_id == span.parent.span_id), None)


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_life_its_steps_and_its_calls_are_spans_with_their_ids_and_without_what_was_said(
    tmp_path: Path, kept: Kept
) -> None:
    send = mailer(Outside())

    def main(run: Any) -> str:
        run.memo("draft", lambda: SECRET)
        with run.step("letters", phase="send"):
            return str(send("ann", SECRET))

    with open_engine(tmp_path, tuning=kept.tuning) as engine:
        assert engine.run(main, run_id="r1").status == "succeeded"
    spans = kept.spans()
    assert [(span.name, parent_of(span, spans)) for span in spans] == [
        ("memo draft", LIFE),
        ("execute_tool send", "step letters"),
        ("step letters", LIFE),
        (LIFE, None),
    ]
    assert len({span.context.trace_id for span in spans}) == 1
    assert {facts(span)["perdure.run_id"] for span in spans} == {"r1"}
    assert {facts(span)["gen_ai.conversation.id"] for span in spans} == {"r1"}
    life, step, call = facts(spans[3]), facts(spans[2]), facts(spans[1])
    assert (life["gen_ai.operation.name"], life["gen_ai.workflow.name"]) == ("invoke_workflow", __name__)
    assert (life["perdure.attempt"], life["perdure.status"]) == (1, "succeeded")
    assert (step["perdure.step_id"], step["perdure.phase"]) == ("r1.s1", "send")
    assert call == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "send",
        "gen_ai.tool.call.id": "r1.2",
        "gen_ai.conversation.id": "r1",
        "perdure.run_id": "r1",
        "perdure.step_id": "r1.s1",
        "perdure.tool_call_id": "r1.2",
        "perdure.tool_namespace": "local",
        "perdure.attempt": 1,
        "perdure.side_effect_class": "external",
        "perdure.guarantee": call["perdure.guarantee"],
        "perdure.status": "succeeded",
    }
    assert [event.name for event in spans[2].events] == ["perdure.checkpoint", "perdure.checkpoint"]
    told = "".join(span.to_json() for span in spans)
    assert SECRET not in told
    assert "sent 1" not in told


def test_a_second_life_is_a_trace_of_its_own_linked_to_the_first_and_tells_what_it_replayed(
    tmp_path: Path, kept: Kept
) -> None:
    broken, send = [True], mailer(Outside())

    def main(run: Any) -> None:
        send("ann")
        if broken:
            raise Crash

    with open_engine(tmp_path, tuning=kept.tuning) as engine:
        assert engine.run(main, run_id="r1").status == "failed"
        broken.clear()
        assert engine.resume("r1", main=main).status == "succeeded"
    first, second = kept.named(LIFE)
    assert first.context.trace_id != second.context.trace_id
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert (facts(first)["error.type"], facts(first)["perdure.status"]) == ("Crash", "failed")
    assert not first.status.is_ok
    assert facts(second)["perdure.replayed_calls"] == 1
    sent, met = kept.named("execute_tool send")
    assert ("perdure.replayed" in facts(sent), facts(met)["perdure.replayed"]) == (False, True)
    assert met.context.trace_id == second.context.trace_id
    assert facts(sent)["perdure.tool_call_id"] == facts(met)["perdure.tool_call_id"] == "r1.1"


def test_what_a_tool_traces_itself_belongs_to_its_call_and_what_main_traces_stands_between(
    tmp_path: Path, kept: Kept
) -> None:
    @tool(side_effect_class="local")
    def inner() -> int:
        with kept.tracer.start_as_current_span("inside inner"):
            return 1

    @tool(side_effect_class="read_only", timeout=4)  # a body with a timeout runs in a thread of its own
    def outer() -> int:
        with kept.tracer.start_as_current_span("inside outer"):
            return int(inner())

    def main(run: Any) -> None:
        with kept.tracer.start_as_current_span("of main"):
            outer()

    with open_engine(tmp_path, tuning=kept.tuning) as engine:
        engine.run(main, run_id="r1")
    spans = kept.spans()
    assert {span.name: parent_of(span, spans) for span in spans} == {
        "inside inner": "execute_tool inner",
        "execute_tool inner": "inside outer",
        "inside outer": "execute_tool outer",
        "execute_tool outer": "of main",
        "of main": LIFE,
        LIFE: None,
    }
    assert trace.get_current_span() is trace.INVALID_SPAN, "nothing stays set behind a life"


def test_calls_side_by_side_in_a_loop_belong_to_their_own_steps(tmp_path: Path, kept: Kept) -> None:
    @tool(side_effect_class="read_only")
    async def look(name: str) -> str:
        with kept.tracer.start_as_current_span(f"body {name}"):
            await asyncio.sleep(0)
            return name

    async def branch(run: Any, name: str) -> None:
        async with run.step(f"of {name}"):
            await look(name)

    async def main(run: Any) -> None:
        await asyncio.gather(*(branch(run, name) for name in "abc"))

    with open_engine(tmp_path, tuning=kept.tuning) as engine:
        assert engine.run(main, run_id="r1").status == "succeeded"
    spans = kept.spans()
    by_id = {span.context.span_id: span for span in spans}

    def line(span: ReadableSpan) -> list[str]:
        return [span.name, *(line(by_id[span.parent.span_id]) if span.parent else [])]

    lines = [line(span) for span in spans if span.name.startswith("body")]
    assert sorted(lines) == [[f"body {name}", "execute_tool look", f"step of {name}", LIFE] for name in "abc"]


def test_calls_of_a_thread_that_the_program_has_started_belong_to_the_life(tmp_path: Path, kept: Kept) -> None:
    @tool(side_effect_class="read_only")
    def look() -> int:
        return 1

    def main(run: Any) -> None:
        thread = threading.Thread(target=lambda: run.call(look))
        thread.start()
        thread.join()

    with open_engine(tmp_path, tuning=kept.tuning) as engine:
        engine.run(main, run_id="r1")
    assert parent_of(kept.one("execute_tool look"), kept.spans()) == LIFE


def test_an_attempt_that_failed_and_one_that_succeeded_are_two_spans_and_a_turn_tells_its_tokens(
    tmp_path: Path, kept: Kept
) -> None:
    left = [1]

    @tool(side_effect_class="external")
    def send(to: str) -> str:
        if left:
            left.pop()
            raise ToolFailed(f"no {SECRET}")
        return to

    def model(messages: Any) -> Any:
        usage = {"prompt_tokens": 11, "completion_tokens": 7}
        return {"model": "m-1", "choices": [{"message": {"role": "assistant", "content": SECRET}}], "usage": usage}

    def main(run: Any) -> None:
        send("ann")
        run.turn("writer", model, [{"role": "user", "content": SECRET}])

    with open_engine(tmp_path, tuning=kept.tuning) as engine:
        assert engine.run(main, run_id="r1").status == "succeeded"
    failed, sent = kept.named("execute_tool send")
    assert (facts(failed)["error.type"], facts(failed)["perdure.attempt"]) == ("ToolFailed", 1)
    assert (facts(sent)["perdure.attempt"], "error.type" in facts(sent)) == (2, False)
    chat = facts(kept.one("chat writer"))
    assert (chat["gen_ai.operation.name"], chat["gen_ai.response.model"]) == ("chat", "m-1")
    assert (chat["gen_ai.usage.input_tokens"], chat["gen_ai.usage.output_tokens"]) == (11, 7)
    assert SECRET not in "".join(span.to_json() for span in kept.spans())


def test_settling_what_a_life_left_in_doubt_and_asking_its_probe_are_spans(tmp_path: Path, kept: Kept) -> None:
    outside, lost = Outside(), [True]

    @tool(side_effect_class="external")
    def send(to: str) -> str:
        outside.sent.append(to)
        if lost:
            raise KeyboardInterrupt
        return to

    @send.probe
    def _sent(call: Any) -> Probe:
        with kept.tracer.start_as_current_span("look it up"):
            return Probe.happened("ann", ref="m-1") if outside.sent else Probe.not_happened()

    def main(run: Any) -> None:
        send("ann")

    with open_engine(tmp_path, tuning=kept.tuning) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run(main, run_id="r1")
        lost.clear()
        assert engine.resume("r1", main=main).status == "succeeded"
    assert outside.sent == ["ann"]
    spans = kept.spans()
    settle, probe = kept.one("settle send"), kept.one("probe send")
    assert (parent_of(probe, spans), parent_of(settle, spans)) == ("settle send", LIFE)
    assert parent_of(kept.one("look it up"), spans) == "probe send"
    assert facts(probe)["perdure.probe.verdict"] == "happened"
    assert facts(settle)["perdure.status"] == "succeeded"
    assert facts(settle)["perdure.tool_call_id"] == facts(probe)["perdure.tool_call_id"] == "r1.1"


def test_a_life_inside_a_request_of_the_program_is_linked_to_it(tmp_path: Path, kept: Kept) -> None:
    with kept.tracer.start_as_current_span("request") as request, open_engine(tmp_path, tuning=kept.tuning) as engine:
        engine.run(_empty, run_id="r1")
        assert trace.get_current_span() is request
    life = kept.one(LIFE)
    assert life.parent is None
    assert [link.context.span_id for link in life.links] == [request.get_span_context().span_id]


def test_a_script_around_which_a_scope_stands_has_spans_too(tmp_path: Path, kept: Kept) -> None:
    send = mailer(Outside())

    async def script(engine: Any) -> None:
        async with engine.ascope("r2") as run:
            with kept.tracer.start_as_current_span("of the body"):
                await run.call(send, "ann")
        assert trace.get_current_span() is trace.INVALID_SPAN

    with open_engine(tmp_path, tuning=kept.tuning) as engine:
        with engine.scope("r1"):
            send("ann")
        asyncio.run(script(engine))
    spans = kept.spans()
    calls = kept.named("execute_tool send")
    assert [parent_of(call, spans) for call in calls] == ["invoke_workflow r1", "of the body"]


def _empty(run: Any) -> None:
    assert run.run_id == "r1"
