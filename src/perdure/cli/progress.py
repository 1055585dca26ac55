"""How a run's progress reads: a block for a terminal, and one line for each change elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.cli.output import visible
from perdure.core.summary import coded

if TYPE_CHECKING:
    from perdure.runtime.changes import Change
    from perdure.runtime.watching import Bar, Progress

BAR_WIDTH = 20
Paint = Callable[[str], str]


def span(seconds: float) -> str:
    """Return a span of time, short."""
    whole = int(max(0.0, seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def block(now: Progress, *, unicode: bool) -> list[str]:
    """Return the lines of the block.

    Args:
        unicode: whether the terminal can show more than ASCII.
    """
    dot = " · " if unicode else " | "
    lines = [_head(now, dot)]
    if now.step is not None and now.phase != "run":
        place = now.step if now.phase in (None, now.step) else f"{now.phase} / {now.step}"
        lines.append(_labelled("step", place))
    if now.call is not None:
        lines.append(_labelled("call", _call(now.call)))
    if now.calls:
        lines.append(_labelled("calls", dot.join(f"{count} {status}" for status, count in sorted(now.calls.items()))))
    lines += [_labelled(item.unit, _bar(item, unicode)) for item in now.bars]
    if now.error:
        lines.append(_labelled("error", now.error))
    for item in now.waits:
        lines.append(_labelled("waits", item.summary))
        lines += [_labelled("", command) for command in item.commands]
    if now.resume_command and now.status not in ("succeeded", "cancelled"):
        lines.append(_labelled("resume", now.resume_command))
    return [visible(line) for line in lines]


def _head(now: Progress, dot: str) -> str:
    status = f"{now.status} ({now.reason})" if now.reason else now.status
    said = [f"{now.run_id}  {now.name}  {status}", f"life {now.attempt}"]
    if now.owner_pid is not None:
        said.append(f"process {now.owner_pid}")
    if now.gone_pid is not None:
        said.append(f"its process {now.gone_pid} is gone")
    return dot.join([*said, f"active {span(now.active_seconds)} of {span(now.total_seconds)}"])


def _labelled(name: str, text: str) -> str:
    return f"  {name:<8}{text}"


def _call(call: Mapping[str, Any]) -> str:
    again = f", attempt {call['attempt']}" if call["attempt"] > 1 else ""
    return f"{call['tool_call_id']} {call['tool_name']}: {call['status']}{again} ({span(call['for_seconds'])})"


def _bar(item: Bar, unicode: bool) -> str:
    full, empty = ("█", "░") if unicode else ("#", "-")
    share = min(1.0, item.used / item.limit)
    filled = int(share * BAR_WIDTH)
    used = f"{item.used:.1f}" if item.unit == "minutes" else f"{item.used:g}"
    return f"{full * filled}{empty * (BAR_WIDTH - filled)} {used} of {item.limit:g}"


def line(change: Change, resume_command: str) -> str:
    """Return a change as one line: when, what, and how it is now."""
    facts = change.facts
    text = _LINES[change.kind](facts)
    if change.kind == "owner":
        text += f"; go on with: {resume_command}"
    return visible(f"{change.at[11:19]}  {change.kind:<10}  {text}")


def _run_line(facts: Mapping[str, Any]) -> str:
    reason = f" ({facts['reason']})" if facts["reason"] else ""
    error = f": {coded(facts['error_code'], facts['error_detail'])}" if facts["error_code"] else ""
    return f"{facts['status']}{reason}{error}"


def _life_line(facts: Mapping[str, Any]) -> str:
    if facts["state"] == "began":
        return f"{facts['attempt']} began in process {facts['pid']}"
    return f"{facts['attempt']} ended: {facts['how']}"


def _call_line(facts: Mapping[str, Any]) -> str:
    again = f", attempt {facts['attempt']}" if facts["attempt"] > 1 else ""
    error = f" ({facts['error_code']})" if facts["error_code"] else ""
    name = f"{facts['tool_namespace']} {facts['tool_name']}" if facts["inner"] else facts["tool_name"]
    return f"{facts['tool_call_id']} {name}: {facts['status']}{again}{error}"


def _question_line(facts: Mapping[str, Any]) -> str:
    if facts["status"] == "open":
        return f"{facts['id']} waits for you: {facts['summary']}"
    return f"{facts['id']} {facts['status']}: {facts['answer']} [{facts['actor']}]"


_LINES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "run": _run_line,
    "life": _life_line,
    "owner": lambda facts: f"process {facts['pid']} is gone, and the run has not ended",
    "step": lambda facts: f"{facts['name']} ({facts['phase']}): {facts['status']}",
    "call": _call_line,
    "evidence": lambda facts: f"{facts['tool_call_id']} {facts['evidence']}: {facts['says']}",
    "question": _question_line,
    "checkpoint": lambda facts: f"{facts['checkpoint_id']} ({facts['checkpoint_type']})",
}
QUIET_KINDS = ("checkpoint",)
"""What a person need not read line by line; every event is in ``-o jsonl``."""


def lines(changes: Sequence[Change], resume_command: Callable[[], str]) -> list[str]:
    """Return what is printed of some changes where no block can be drawn."""
    return [
        line(change, resume_command() if change.kind == "owner" else "")
        for change in changes
        if change.kind not in QUIET_KINDS
    ]
