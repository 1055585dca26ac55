"""Spans for OpenTelemetry: what they tell, how they hang together, and that no outcome depends on them."""

from __future__ import annotations

import asyncio
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import copy_context
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from perdure import Probe, ToolFailed, tool
from perdure.runtime import telemetry
from perdure.runtime.telemetry import OpenTelemetry
from tests.integration.engine_support import FAST, Crash, Outside, mailer, open_engine

SECRET = "the words of the letter"
LIFE = f"invoke_workflow {__name__}"  # the run of a function is called as its module


class Kept:
    """A provider of one test, its tracer as a sink, and the spans it has exported."""

    def __init__(self, processor: SpanProcessor | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(processor or SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("program")
        self.tuning = replace(FAST, telemetry=OpenTelemetry(self.provider.get_tracer("perdure")))

    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found


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


# --- nothing depends on it -------------------------------------------------------------------------------------------


class _Raises(SpanProcessor):
    def __init__(self, at: str) -> None:
        self._at = at

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self._at == "start":
            raise OSError("no collector")

    def on_end(self, span: Any) -> None:
        if self._at == "end":
            raise OSError("no collector")


class _Hangs(SpanExporter):
    def __init__(self) -> None:
        self.let_go = threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        self.let_go.wait(30)
        return SpanExportResult.FAILURE


class _BreaksAt:
    """A sink that raises in one of its methods, from the second use on."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._uses = 0
        self._inner = Kept().tuning.telemetry

    def __getattr__(self, name: str) -> Any:
        def method(*given: Any) -> Any:
            if name == self._method:
                self._uses += 1
                if self._uses > 1 or name == "place":
                    raise ValueError(f"broken in {name}")
            return getattr(self._inner, name)(*given)

        return method


def lived(folder: Path, sink: Any) -> Any:
    """Live two lives with a sink, or without one; return all that a user could see of them."""
    folder.mkdir()
    outside, broken = Outside(), [True]
    send = mailer(outside, scope=["to"])

    def main(run: Any) -> str:
        with run.step("letters"):
            send("ann")
            send("bob")
        if broken:
            raise Crash
        return "all"

    with open_engine(folder, tuning=replace(FAST, telemetry=sink)) as engine:
        engine.run(main, run_id="r1")
        broken.clear()
        found = engine.resume("r1", main=main)
        calls = [(call["tool_call_id"], call["status"], call["attempt"]) for call in engine.calls("r1", inner=True)]
        kinds = [mark["kind"] for mark in engine.details("r1")["checkpoints"]]
    return (found.status, found.result, found.attempt, found.replayed), outside.sent, calls, kinds


def warned(caplog: Any) -> list[str]:
    return [item.getMessage() for item in caplog.records if item.name == "perdure" and item.levelname == "WARNING"]


@pytest.mark.parametrize("method", ["begin", "enter", "leave", "note", "end", "place"])
def test_a_sink_that_raises_is_dropped_with_one_warning_a_life_and_changes_nothing(
    tmp_path: Path, method: str, caplog: Any
) -> None:
    without = lived(tmp_path / "without", False)
    here = copy_context()  # what a sink that breaks in `leave` leaves behind, stays in here
    assert here.run(lived, tmp_path / "with", _BreaksAt(method)) == without
    told = warned(caplog)
    assert len(told) <= 2, "once a life"
    assert bool(told) == (method != "leave"), "what could not be left is nobody's concern"
    assert here.run(trace.get_current_span) is trace.INVALID_SPAN or method == "leave"


@pytest.mark.parametrize("at", ["start", "end"])
def test_a_processor_of_the_program_that_raises_changes_nothing(tmp_path: Path, at: str, caplog: Any) -> None:
    without = lived(tmp_path / "without", False)
    assert lived(tmp_path / "with", Kept(_Raises(at)).tuning.telemetry) == without
    assert len(warned(caplog)) == 2
    assert "no collector" in warned(caplog)[0]


def test_an_exporter_that_hangs_costs_a_life_a_bounded_time(
    tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "PATIENCE_SECONDS", 0.05)
    hangs = _Hangs()
    try:
        without = lived(tmp_path / "without", False)
        assert lived(tmp_path / "with", Kept(SimpleSpanProcessor(hangs)).tuning.telemetry) == without
    finally:
        hangs.let_go.set()
    assert [text.split(": ", 1)[0] for text in warned(caplog)] == ["spans of this life are given up"] * 2


def test_what_an_exporter_does_not_take_is_given_up_and_takes_no_memory(
    tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "MOST_WAITING", 2)
    hangs = _Hangs()
    try:
        lived(tmp_path / "with", Kept(SimpleSpanProcessor(hangs)).tuning.telemetry)
    finally:
        hangs.let_go.set()
    assert all("does not come along" in text for text in warned(caplog))
    assert len(warned(caplog)) == 2


def test_a_sampler_that_drops_everything_leaves_nothing_and_changes_nothing(tmp_path: Path) -> None:
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    quiet = InMemorySpanExporter()
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(quiet))
    sink = OpenTelemetry(provider.get_tracer("perdure"))
    assert lived(tmp_path / "with", sink) == lived(tmp_path / "without", False)
    assert not quiet.get_finished_spans()


# --- real processes --------------------------------------------------------------------------------------------------

JOB = """
import os, sys
{before}
import perdure
from perdure import tool
import warnings; warnings.simplefilter("error")

@tool(side_effect_class="local")
def write(name):
    return name

@tool(side_effect_class="read_only")
def last():
    if os.environ.get("KILLED"):
        sys.stdin.read()
    return "over"

def main(run):
    write("a")
    return last()

if __name__ == "__main__":
    with perdure.open(state_dir=sys.argv[1]) as engine:
        found = engine.run(main, run_id="r1")
        calls = [(call["tool_call_id"], call["status"], call["attempt"]) for call in engine.calls("r1")]
        print(found.status, found.result, calls, "opentelemetry" in sys.modules)
"""

EXPORTING = """
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
"""

BLOCKED = """
class _Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, _Blocker())
"""


@pytest.fixture
def collector() -> Iterator[tuple[str, queue.Queue[Any]]]:
    """A receiver of OTLP over HTTP on loopback, and the spans that it was sent."""
    received: queue.Queue[Any] = queue.Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
            for scope in (scope for part in sent.resource_spans for scope in part.scope_spans):
                for span in scope.spans:
                    received.put(span)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/traces", received
    server.shutdown()
    server.server_close()
    thread.join()


def process(folder: Path, before: str, **environ: str) -> subprocess.Popen[str]:
    program = folder / "job.py"
    program.write_text(JOB.replace("{before}", before), "utf-8")
    command = [sys.executable, str(program), str(folder / "state")]
    env = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "PERDURE_"))}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env={**env, **environ}, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def test_a_killed_life_and_its_resume_arrive_at_a_collector_as_two_traces_joined_by_the_run(
    tmp_path: Path, collector: tuple[str, queue.Queue[Any]]
) -> None:
    address, received = collector
    with process(tmp_path, EXPORTING, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=address, KILLED="1") as first:
        spans = [received.get(timeout=20)]
        first.kill()
    with process(tmp_path, EXPORTING, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=address) as second:
        said, problems = second.communicate(timeout=20)
    assert said.startswith("succeeded over"), problems
    while not received.empty():
        spans.append(received.get())
    assert [span.name for span in spans] == [
        *("execute_tool write", "settle last", "execute_tool write", "execute_tool last", "invoke_workflow job")
    ]
    assert {item.value.string_value for s in spans for item in s.attributes if item.key == "perdure.run_id"} == {"r1"}
    killed, life = spans[0], spans[-1]
    assert killed.trace_id != life.trace_id == spans[1].trace_id
    assert [(link.trace_id, link.span_id) for link in life.links] == [(killed.trace_id, killed.parent_span_id)]


def test_a_program_without_opentelemetry_lives_as_one_with_it(tmp_path: Path) -> None:
    told = {}
    for name, before in (("blocked", BLOCKED), ("no collector", EXPORTING)):
        folder = tmp_path / name
        folder.mkdir()
        nobody = "http://127.0.0.1:9/v1/traces"
        with process(
            folder, before, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=nobody, OTEL_EXPORTER_OTLP_TIMEOUT="0.1"
        ) as job:
            said, problems = job.communicate(timeout=20)
        assert job.returncode == 0, problems
        told[name] = said.split()
    assert told["blocked"][:-1] == told["no collector"][:-1]
    assert [said[-1] for said in told.values()] == ["False", "True"]


def test_who_asks_for_it_without_having_it_is_told_once(caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert telemetry.chooser({"PERDURE_OTEL": "1"}, None)() is None
    assert len(warned(caplog)) == 1
    assert telemetry.chooser({}, None)() is None
    assert len(warned(caplog)) == 1


def test_it_is_on_by_itself_only_where_the_program_has_configured_a_provider(
    monkeypatch: pytest.MonkeyPatch, kept: Kept
) -> None:
    def wanted(said: str | None, asked: bool | None = None) -> bool:
        return telemetry.chooser({} if said is None else {"PERDURE_OTEL": said}, asked)() is not None

    assert [wanted(None), wanted("1"), wanted("0"), wanted(None, True)] == [False, True, False, True]
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: kept.provider)
    assert [wanted(None), wanted("1"), wanted("off"), wanted("1", False)] == [True, True, False, False]


def test_a_run_without_telemetry_keeps_no_place_in_a_trace(tmp_path: Path) -> None:
    with open_engine(tmp_path) as engine:
        engine.run(_empty, run_id="r1")
        rows = engine._ledger.read(lambda store: store.origins.traceparent_before("r1", 99))
    assert rows is None
