"""The ``perdure.crashtest/v1`` document: everything that the terminal and the page tell."""

from __future__ import annotations

from typing import Any

from perdure.testing.crashtest.advice import ToolFacts, advice, stand_in_of
from perdure.testing.crashtest.carry_out import Found
from perdure.testing.crashtest.plan import Plan
from perdure.testing.crashtest.verdict import WORDS, Passage, Verdict, tally

SCHEMA = "perdure.crashtest/v1"


def document_of(found: Found, plan: Plan, *, job: str, command: str) -> dict[str, Any]:
    """Return the document of a crash test.

    Args:
        found: what it found.
        plan: what was to be tried.
        job: as the user has named it.
        command: what the user has typed.
    """
    return {
        "schema": SCHEMA,
        "ok": found.ok,
        "job": job,
        "name": found.name,
        "verdict": verdict(found),
        "how": how(found, plan),
        "command": command,
        "live": plan.live,
        "clean_points": found.points,
        "counts": tally(found.passages),
        "untried": list(found.untried),
        "expected": [{"effect": name, "times": times} for name, times in sorted(found.expected.counts.items())],
        "unsteady": list(found.expected.unsteady),
        "approvals": list(found.approvals),
        "tools": [_tool(tool, plan) for tool in found.tools],
        "points": [_point(passage) for passage in found.passages],
        "limits": limits(found, plan),
        "seconds": round(found.seconds, 1),
    }


def verdict(found: Found) -> str:
    """Return the sentence that sums a crash test up."""
    counts = tally(found.passages)
    parts = [f"{counts[word]} {_PLURAL[word]}" for word in Verdict if counts[word] or word is Verdict.FINISHED]
    return f"{len(found.passages)} crash points: {', '.join(parts)}"


_PLURAL = {
    Verdict.FINISHED: "went on and finished",
    Verdict.WAITS: "wait for a person",
    Verdict.STUCK: "stuck",
    Verdict.LOST: "lost an effect",
    Verdict.REPEATED: "repeated an effect",
}


def how(found: Found, plan: Plan) -> str:
    """Return how it was done, in a sentence or two."""
    done = (
        "The real tools were entered, and each entry was counted by another process before it was made."
        if plan.live
        else "No external or memory tool was entered: stand-ins did their effects at another process, each under "
        "its tool's own guarantee, and that process counted them."
    )
    return f"A clean run passes {found.points} points. {done} It took {found.seconds:.0f} s."


def limits(found: Found, plan: Plan) -> list[str]:
    """Return what such a test does not show."""
    said = [
        "Each run was killed once; a second crash during recovery was not tried.",
        "What main and its memos do by themselves, without a tool, was done for real at every point and not counted.",
        "A process was ended, not a machine: what a disk forgets after a power cut was not tried.",
    ]
    if not plan.live:
        said.append(
            "Whether the real providers keep what the tools declare (keys, refused second writes, a search that finds) "
            "was not tried."
        )
    if plan.worst:
        said.append("Only the worst moment of each tool was tried, not every numbered point.")
    if found.untried:
        said.append(f"{len(found.untried)} points of a clean run were not tried.")
    if found.expected.unsteady:
        named = ", ".join(found.expected.unsteady)
        said.append(f"Two clean runs did not call {named} equally often, so a lost effect of it would not be seen.")
    if found.approvals:
        said.append(f"Approvals that a clean run asks for were given at once: {', '.join(found.approvals)}.")
    return said


def _tool(tool: ToolFacts, plan: Plan) -> dict[str, Any]:
    return {
        "tool": tool.name,
        "namespace": tool.namespace,
        "class": tool.side_effect_class,
        "replay_policy": tool.replay_policy,
        "guarantee": tool.guarantee,
        "returns": _returns(tool, plan),
        "reached": tool.reached,
        "advice": advice(tool),
    }


def _returns(tool: ToolFacts, plan: Plan) -> str:
    if not tool.reached:
        return "not called by a clean run"
    return stand_in_of(tool, plan) or "runs for real"


def _point(passage: Passage) -> dict[str, Any]:
    difference = passage.difference
    return {
        "point": passage.point,
        "where": passage.where,
        "verdict": str(passage.verdict),
        "words": WORDS[passage.verdict],
        "lives": passage.lives,
        "why": passage.reasons,
        "questions": [
            {"kind": asked.kind, "tool": asked.tool, "summary": asked.summary, "answer": asked.answer}
            for asked in passage.questions
        ],
        "repeated": sorted(difference.repeated) if difference else [],
        "lost": sorted(difference.lost) if difference and not passage.trouble else [],
        "state_dir": passage.folder if passage.verdict.is_bad else None,
        "seconds": round(passage.seconds, 2),
    }
