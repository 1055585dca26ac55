"""Spans for OpenTelemetry: the only file that knows it, and nothing of it is imported before it is wanted.

What the program's exporters do belongs to the program, and may raise or hang. So spans are ended in a thread of each
life's own, in order and with the times at which they really ended; where that thread does not come along, spans are
given up, and the run goes on.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from perdure.ports.spans import Facts, SpanSink

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Tracer

_LOG = logging.getLogger("perdure")
VARIABLE = "PERDURE_OTEL"
MOST_WAITING = 10_000
PATIENCE_SECONDS = 2.0
"""How long the end of a life waits for what exporters have not taken yet."""
_YES, _NO = ("1", "on", "true", "yes"), ("0", "off", "false", "no")


def chooser(environ: Mapping[str, str], wanted: SpanSink | bool | None) -> Callable[[], SpanSink | None]:
    """Return what is asked at the beginning of each life for where its spans go.

    Args:
        environ: ``PERDURE_OTEL`` in it says yes or no where ``wanted`` says nothing.
        wanted: a sink of one's own, yes, no, or ``None``: where the program has configured a provider of tracers.
    """
    if wanted is not None and not isinstance(wanted, bool):
        own: SpanSink = wanted
        return lambda: own
    said = environ.get(VARIABLE, "").strip().lower()
    asked = wanted if wanted is not None else True if said in _YES else False if said in _NO else None
    return lambda: _find(asked)


def _find(asked: bool | None) -> SpanSink | None:
    if asked is False or (asked is None and "opentelemetry.trace" not in sys.modules):
        return None  # a program that has not imported it has configured nothing
    try:
        from opentelemetry import trace

        provider = trace.get_tracer_provider()
        if asked is None and isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
            return None
        return OpenTelemetry(provider.get_tracer("perdure"))
    except Exception as problem:
        if asked:
            _LOG.warning("there are no spans: OpenTelemetry cannot be used here: %s", problem)
        return None


class _Thread:
    """Does the errands of one life in order, in a thread that begins with the first of them."""

    def __init__(self) -> None:
        self._errands: queue.Queue[Callable[[], None] | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._given_up = False

    def hand(self, errand: Callable[[], None] | None) -> None:
        """Do something later; dropped where too much waits already."""
        if self._given_up:
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="perdure-spans", daemon=True)
                self._thread.start()
        try:
            self._errands.put_nowait(errand)
        except queue.Full:
            self._give_up("the exporter does not come along")

    def finish(self) -> None:
        """Wait a bounded time until everything is done."""
        self.hand(None)
        if self._thread is not None and not self._given_up:
            self._thread.join(PATIENCE_SECONDS)
            if self._thread.is_alive():
                self._give_up(f"the exporter has not answered for {PATIENCE_SECONDS:g} s")

    def _give_up(self, why: str) -> None:
        if not self._given_up:
            self._given_up = True
            _LOG.warning("spans of this life are given up: %s; the run is what it would be without them", why)

    def _serve(self) -> None:
        while True:
            errand = self._errands.get()
            if errand is None or self._given_up:
                return
            try:
                errand()
            except Exception as problem:
                self._give_up(f"{type(problem).__name__}: {problem}")
                return


class _Begun:
    """A span that is open, and the thread of its life."""

    __slots__ = ("is_life", "span", "thread")

    def __init__(self, span: Span, thread: _Thread, is_life: bool) -> None:
        self.span = span
        self.thread = thread
        self.is_life = is_life


class OpenTelemetry:
    """Hands the spans of lives to a tracer of the program's own provider."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def begin(self, name: str, facts: Facts, parent: _Begun | None, before: str | None) -> _Begun:
        """Begin a span: a life's is the root of a trace, the others belong to what they are inside."""
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind

        if parent is None:
            links = _links(before)
            span = self._tracer.start_span(name, Context(), SpanKind.INTERNAL, dict(facts), links)
            return _Begun(span, _Thread(), True)
        span = self._tracer.start_span(name, _inside(parent), SpanKind.INTERNAL, dict(facts))
        return _Begun(span, parent.thread, False)

    def enter(self, begun: _Begun) -> Any:
        """Let the spans that are begun here belong to this one."""
        from opentelemetry import context, trace

        return context.attach(trace.set_span_in_context(begun.span))

    def leave(self, entered: Any) -> None:
        """Undo ``enter``."""
        from opentelemetry import context

        context.detach(entered)

    def note(self, begun: _Begun, name: str, facts: Facts) -> None:
        """Add an event."""
        begun.span.add_event(name, dict(facts), time.time_ns())

    def end(self, begun: _Begun, facts: Facts, error: str | None) -> None:
        """End a span in the thread of its life, at the time of now."""
        from opentelemetry.trace import Status, StatusCode

        span, ended_at = begun.span, time.time_ns()
        span.set_attributes(dict(facts))
        if error is not None:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        begun.thread.hand(lambda: span.end(ended_at))
        if begun.is_life:
            begun.thread.finish()

    def place(self, begun: _Begun) -> str | None:
        """Return the W3C ``traceparent`` of a span."""
        found = begun.span.get_span_context()
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}" if found.is_valid else None


def _inside(parent: _Begun) -> Context:
    """Return where a span belongs: to the span that is open here, if it is one of this life's, else to ``parent``.

    A thread that the program has started itself knows no span; its calls belong to their step.
    """
    from opentelemetry import context, trace

    here = trace.get_current_span().get_span_context()
    if here.is_valid and here.trace_id == parent.span.get_span_context().trace_id:
        return context.get_current()
    return trace.set_span_in_context(parent.span)


def _links(before: str | None) -> list[Link]:
    """Return links to the life before and to the span that is open where this life begins, such as a request's."""
    from opentelemetry import trace

    found = [trace.get_current_span().get_span_context()]
    parts = (before or "").split("-")
    if len(parts) == 4:
        flags = trace.TraceFlags(int(parts[3], 16))
        found.insert(0, trace.SpanContext(int(parts[1], 16), int(parts[2], 16), is_remote=True, trace_flags=flags))
    marks = ("previous_life", "began_in") if len(parts) == 4 else ("began_in",)
    return [
        trace.Link(place, {"perdure.link": mark}) for place, mark in zip(found, marks, strict=True) if place.is_valid
    ]
