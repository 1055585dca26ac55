"""How far a watcher has read: a small text that another watcher goes on from, in another process, on another day.

It holds the numbers up to which rows were told, and of the rows that could still move the state that was told. A row
whose state differs now is told again; one that cannot move needs no memory. So nothing is missed, whatever happened
meanwhile, and no log of changes has to be written.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from perdure.model.errors import UsageError

START = "start"
_FORM = "1"


@dataclass(slots=True)
class Seen:
    """What was told of one run.

    Args:
        run_id: whose cursor it is.
        run: the run's state, as one word.
        life: the number of the newest life that was told, and whether its end was.
        gone: the life of which it was told that its process is gone.
        fence: up to which owner all calls were told; of the next ones those up to number ``again``.
        calls, evidence, questions, checkpoints, steps: the highest numbers told.
        moved: when the last step that was told had moved.
        open_calls, open_steps: what could still move, by number, with the state that was told.
        open_questions: the numbers of questions told as open.
    """

    run_id: str
    run: str = ""
    life: int = 0
    life_over: bool = True
    gone: int = 0
    fence: int = 0
    again: int = 0
    calls: int = 0
    evidence: int = 0
    questions: int = 0
    checkpoints: int = 0
    steps: int = -1
    moved: str = ""
    open_calls: dict[int, str] = field(default_factory=dict[int, str])
    open_steps: dict[int, str] = field(default_factory=dict[int, str])
    open_questions: list[int] = field(default_factory=list[int])

    def text(self) -> str:
        """Return the cursor."""
        packed = json.dumps(list(asdict(self).values()), separators=(",", ":"))
        return f"{_FORM}.{base64.urlsafe_b64encode(packed.encode()).decode().rstrip('=')}"


def seen_from(text: str, run_id: str) -> Seen:
    """Return what a cursor holds; ``start`` and ``0`` are the beginning of the run.

    Raises:
        UsageError: it is no cursor, or that of another run.
    """
    if text in (START, "0"):
        return Seen(run_id)
    form, _, packed = text.partition(".")
    try:
        values: list[Any] = json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
        found = Seen(*values[:])
        found.open_calls = {int(number): state for number, state in found.open_calls.items()}
        found.open_steps = {int(number): state for number, state in found.open_steps.items()}
        if form != _FORM:
            raise ValueError(form)
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error):
        raise UsageError(
            f"{text[:40]!r} is no cursor of this version; each event carries one, and 'start' is the beginning"
        ) from None
    if found.run_id != run_id:
        raise UsageError(f"the cursor is one of run {found.run_id!r}, not of {run_id!r}")
    return found
