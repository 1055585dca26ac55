"""Nothing depends on telemetry: sinks, processors and exporters that raise, hang or drop change nothing."""

from __future__ import annotations

import threading
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from perdure.runtime import telemetry
from perdure.runtime.telemetry import OpenTelemetry
from tests.integration.engine_support import FAST, Crash, Outside, mailer, open_engine
from tests.integration.telemetry_support import Kept, warned


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
