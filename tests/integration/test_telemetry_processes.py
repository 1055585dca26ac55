"""Telemetry of real processes: what arrives at a collector, and programs that have none."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from perdure.runtime import telemetry
from tests.integration.engine_support import open_engine
from tests.integration.telemetry_support import Kept, warned


@pytest.fixture
def kept() -> Kept:
    return Kept()


def _empty(run: Any) -> None:
    assert run.run_id == "r1"


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
        spans = [received.get(timeout=60)]
        first.kill()
    with process(tmp_path, EXPORTING, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=address) as second:
        said, problems = second.communicate(timeout=60)
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
            said, problems = job.communicate(timeout=60)
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
