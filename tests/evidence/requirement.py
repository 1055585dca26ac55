"""What stands in the table of requirements about one of them."""

from __future__ import annotations

from dataclasses import dataclass

NOT_THERE = {
    "adapter": "langgraph",
    "subagent": "langgraph",
    "foreign harness": "claude",
    "MCP": "mcp-proxy",
    "trigger": "triggers",
    "resume: session": "resume: session",
}
"""What a note may say is missing, and by which word the README's list of what is not in this version names it."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement.

    Args:
        says: what is asked for, in short.
        check: what is looked at.
        tests: below `tests/`.
        commands: what a person can type instead.
        missing: what of it does not hold in this version, by a word of ``NOT_THERE``.
        otherwise: what was decided in place of a part of it, and on which page of docs/design, as ``0038: …``.
    """

    number: str
    says: str
    check: str
    tests: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    missing: str = ""
    otherwise: str = ""
