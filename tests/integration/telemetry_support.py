"""A provider of spans that keeps them, and what a log has warned of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from perdure.runtime.telemetry import OpenTelemetry
from tests.integration.engine_support import FAST


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


def warned(caplog: Any) -> list[str]:
    return [item.getMessage() for item in caplog.records if item.name == "perdure" and item.levelname == "WARNING"]
