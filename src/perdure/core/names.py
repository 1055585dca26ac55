"""What a tool is called by those who call it: prefixes that agents and protocols put before a name (R109)."""

from __future__ import annotations

from collections.abc import Iterator

_PREFIXES = ("functions.", "tools.", "local.")


def spellings(raw: str) -> Iterator[str]:
    """Yield the names that a spelling may stand for, the nearest first: ``mcp__SERVER__TOOL``, ``functions.TOOL``.

    A name that a tool really has always means that tool; only one that nobody has is looked at more closely.
    """
    yield raw
    for prefix in _PREFIXES:
        if raw.startswith(prefix):
            yield raw[len(prefix) :]
    parts = raw.split("__", 2)
    if len(parts) == 3 and parts[0] == "mcp" and parts[2]:
        yield parts[2]
