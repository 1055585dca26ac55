"""Lines of which resume packets and completion reports are made: calls, lives and files, as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from perdure.core.marks import whole_marks
from perdure.model.artifact import CheckedArtifact

SHORT_CHARACTERS = 160


@dataclass(frozen=True, slots=True)
class CallLine:
    """One call in short.

    Args:
        what: the tool with its arguments, shortened.
        at: when it ended, or was recorded.
        receipt: what its caller gets, shortened; ``None`` without one.
        ref: the provider's own id of the effect.
        decided: who settled it, on what evidence; empty where nothing had to be settled.
        inherited_from: the call of another run whose receipt a fork has inherited.
        simulated: nothing was sent for it.
    """

    tool_call_id: str
    tool_name: str
    side_effect_class: str
    status: str
    what: str
    at: str | None = None
    receipt: str | None = None
    ref: str | None = None
    decided: str = ""
    inherited_from: str | None = None
    simulated: bool = False

    def as_document(self) -> dict[str, Any]:
        """Return the line as JSON data."""
        return {
            "tool_call_id": self.tool_call_id,
            "tool_name": self.tool_name,
            "side_effect_class": self.side_effect_class,
            "status": self.status,
            "call": self.what,
            "at": self.at,
            "receipt": self.receipt,
            "ref": self.ref,
            "decided": self.decided or None,
            "inherited_from": self.inherited_from,
            "simulated": self.simulated,
        }

    def as_markdown(self) -> str:
        """Return the line as an item of a list."""
        parts = [f"`{self.tool_call_id}` {self.status}: {inline(self.what)}"]
        parts += [f"receipt {inline(self.receipt)}"] if self.receipt is not None else []
        parts += [f"ref {inline(self.ref)}"] if self.ref else []
        parts += [self.decided] if self.decided else []
        parts += [f"inherited from `{self.inherited_from}`"] if self.inherited_from else []
        parts += ["simulated: nothing was sent"] if self.simulated else []
        return f"- {'; '.join(parts)}" + (f" ({self.at})" if self.at else "")


@dataclass(frozen=True, slots=True)
class LifeLine:
    """One process life of a run, and how it ended; ``how`` is ``None`` while it goes on."""

    attempt: int
    started_at: str
    ended_at: str | None
    how: str | None
    replayed: int = 0
    settled: int = 0
    challenged: int = 0
    unmet: int = 0

    def as_document(self) -> dict[str, Any]:
        """Return the line as JSON data."""
        return {
            "attempt": self.attempt,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "how": self.how,
            "replayed": self.replayed,
            "settled": self.settled,
            "challenged": self.challenged,
            "unmet": self.unmet,
        }

    def as_markdown(self) -> str:
        """Return the line as an item of a list."""
        counted = {"replayed": self.replayed, "settled": self.settled, "challenged": self.challenged}
        said = "".join(f", {count} {what}" for what, count in counted.items() if count)
        until = f" to {self.ended_at}" if self.ended_at else ""
        return f"- life {self.attempt}: {self.how or 'goes on'}{said} ({self.started_at}{until})"


def file_document(found: CheckedArtifact) -> dict[str, Any]:
    """Return a checked artifact as JSON data."""
    return {
        "path": found.artifact.path,
        "sha256": found.artifact.sha256,
        "size_bytes": found.artifact.size_bytes,
        "tool_call_id": found.artifact.tool_call_id,
        "state": str(found.state),
    }


def file_markdown(found: CheckedArtifact) -> str:
    """Return a checked artifact as an item of a list."""
    made, maker = found.artifact, found.artifact.tool_call_id
    by = f", by `{maker}`" if maker else ""
    return f"- {inline(made.path)}: {found.state}, {made.size_bytes} bytes, sha256 {made.sha256}{by}"


def section(title: str, lines: Iterable[str], *, left_out: int = 0, more: str = "") -> list[str]:
    """Return a part with its heading, or nothing where it has no lines.

    Args:
        left_out: how many lines are not shown.
        more: how to see them.
    """
    shown = list(lines)
    if not shown:
        return []
    rest = [f"- … {left_out} more{': ' + inline(more) if more else ''}"] if left_out > 0 else []
    return ["", f"## {title}", "", *shown, *rest]


def coded(code: str | None, detail: str | None) -> str:
    """Return an error's code and what it says, apart by a colon; many an error says nothing."""
    return ": ".join(text for text in (code, detail) if text)


def inline(text: str) -> str:
    """Return a text as code on one line, whatever is in it."""
    flat = " ".join(text.split()) or "(empty)"
    fence = "`"
    while fence in flat:
        fence += "`"
    padding = " " if flat[0] == "`" or flat[-1] == "`" else ""
    return f"{fence}{padding}{flat}{padding}{fence}"


def shorten(text: str, characters: int = SHORT_CHARACTERS) -> str:
    """Return a text that is no longer than so many characters; a mark of a secret stays whole or goes."""
    return text if len(text) <= characters else text[: whole_marks(text, characters - 1)] + "…"


def counted(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return one line for each side-effect class, with how many calls of it are in which state."""
    return [
        f"- {kind}: " + ", ".join(f"{count} {status}" for status, count in sorted(states.items()))
        for kind, states in sorted(counts.items())
    ]
