"""Where the spans of lives go: what the engine tells of its boundaries, while they are passed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

Facts = Mapping[str, str | bool | int | float]


class SpanSink(Protocol):
    """Takes spans: a life, a step, an attempt of a call, a settling, a question to a probe.

    It is never asked for anything that a run depends on. One that raises is dropped for the rest of the life, with one
    warning, and changes no outcome; one that hangs holds up the run, so what may hang belongs into a thread of its own.
    """

    def begin(self, name: str, facts: Facts, parent: Any, before: str | None, /) -> Any:
        """Begin a span and return what stands for it.

        Args:
            name: such as ``execute_tool send``.
            facts: ids, words and numbers; never arguments or results.
            parent: what stands for the span it belongs to; ``None`` for a life, which belongs to none.
            before: of a life, where the one before it stood in its own trace (a ``traceparent``).
        """
        ...

    def enter(self, begun: Any, /) -> Any:
        """Make a span the one that whatever runs here belongs to, and return what undoes that."""
        ...

    def leave(self, entered: Any, /) -> None:
        """Undo ``enter``, in the same place."""
        ...

    def note(self, begun: Any, name: str, facts: Facts, /) -> None:
        """Note a moment in a span, such as a checkpoint; called in the middle of a transaction, so it must be quick."""
        ...

    def end(self, begun: Any, facts: Facts, error: str | None, /) -> None:
        """End a span.

        Args:
            facts: what is known now, beside what was at its beginning.
            error: the kind of error that it ended with, without its words.
        """
        ...

    def place(self, begun: Any, /) -> str | None:
        """Return where a life stands in its trace as a ``traceparent``, which the next life links to."""
        ...
