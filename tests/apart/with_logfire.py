"""A run under the real package ``logfire``, which sends nothing here: what its own provider exports and its console shows.

Run by `python3 tasks.py prove logfire` in an environment of its own (requirements/logfire.lock): installed beside the
other tests, Logfire's plugins for pydantic and pytest would cost each process that a test starts about a second.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import logfire
import pytest
from logfire import ConsoleOptions
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import perdure
from perdure import tool

SAID = "what-was-said-stays-in-the-ledger"


@dataclass
class Seen:
    """What Logfire exports, and what it prints."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    console: io.StringIO = field(default_factory=io.StringIO)

    def named(self, name: str) -> list[ReadableSpan]:
        """Return finished spans of a name in the order of their ends; Logfire's marks of a beginning are none."""
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[Seen]:
    found = Seen()
    logfire.configure(
        send_to_logfire=False,
        service_name="perdure-test",
        data_dir=tmp_path / "logfire",
        console=ConsoleOptions(output=found.console, colors="never", show_project_link=False),
        additional_span_processors=[SimpleSpanProcessor(found.exporter)],
        metrics=False,
    )
    yield found
    logfire.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@tool(side_effect_class="external", scope=["to"])
def send(to: str, body: str) -> str:
    with logfire.span("connect to {to}", to=to):
        return f"accepted {body}"


def call_model(messages: list[Any]) -> dict[str, Any]:
    return {"content": SAID, "usage": {"prompt_tokens": 7, "completion_tokens": 2}, "model": "small"}


def main(run: Any, *, fails: bool = False) -> str:
    with run.step("letters", phase="send"):
        told = send("ann", SAID)
    if fails:
        raise RuntimeError("stopped")
    run.turn("agent", call_model, [{"role": "user", "content": SAID}])
    return str(told)


def test_a_run_is_seen_by_logfire_with_its_ids_and_without_what_was_said(seen: Seen, tmp_path: Path) -> None:
    with logfire.span("a request"):
        done = perdure.run(main, run_id="r1", state_dir=tmp_path / "state")
    assert done.status == "succeeded"
    (life,) = seen.named("invoke_workflow with_logfire")
    (step,), (call,), (turn,) = (seen.named(name) for name in ("step letters", "execute_tool send", "chat agent"))
    (inner,), (request,) = seen.named("connect to {to}"), seen.named("a request")
    for span in (life, step, call, turn):
        told = attributes(span)
        assert told["perdure.run_id"] == told["gen_ai.conversation.id"] == "r1"
        assert span.context.trace_id == life.context.trace_id
        assert SAID not in str(told) and "Scrubbed" not in str(told), told
    assert attributes(call)["perdure.tool_call_id"] == attributes(call)["gen_ai.tool.call.id"] == "r1.1"
    assert attributes(call)["perdure.step_id"] == attributes(step)["perdure.step_id"] != ""
    assert attributes(call)["perdure.status"] == attributes(life)["perdure.status"] == "succeeded"
    assert (attributes(turn)["gen_ai.usage.input_tokens"], attributes(turn)["gen_ai.response.model"]) == (7, "small")
    parents = [span.parent.span_id if span.parent else None for span in (inner, call, step, life)]
    assert parents == [call.context.span_id, step.context.span_id, life.context.span_id, None]
    assert [link.context.span_id for link in life.links] == [request.context.span_id]
    assert life.resource.attributes["service.name"] == "perdure-test"
    shown = seen.console.getvalue()
    assert all(
        name in shown for name in ("a request", "invoke_workflow with_logfire", "execute_tool send", "connect to")
    )


def test_a_later_life_is_a_trace_of_its_own_linked_to_the_one_before(seen: Seen, tmp_path: Path) -> None:
    with perdure.open(state_dir=tmp_path / "state", tools=[send]) as engine:
        assert engine.run(lambda run: main(run, fails=True), run_id="r2").status == "failed"
        assert engine.resume("r2", main=main).status == "succeeded"
    first, second = sorted(
        (span for span in seen.exporter.get_finished_spans() if span.name.startswith("invoke_workflow")),
        key=lambda span: span.start_time or 0,
    )
    assert first.context.trace_id != second.context.trace_id
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert attributes(first)["error.type"] == "RuntimeError"
    assert attributes(second)["perdure.replayed_calls"] == 1
    sent, met = seen.named("execute_tool send")
    assert attributes(met)["perdure.replayed"] is True and "perdure.replayed" not in attributes(sent)
    assert (attributes(met)["perdure.run_id"], attributes(met)["perdure.tool_call_id"]) == ("r2", "r2.1")
    assert len(seen.named("connect to {to}")) == 1


def test_perdure_otel_0_keeps_a_run_out_of_logfire(seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_OTEL", "0")
    assert perdure.run(main, run_id="r3", state_dir=tmp_path / "state").status == "succeeded"
    assert [span.name for span in seen.exporter.get_finished_spans()] == ["connect to {to}"]
