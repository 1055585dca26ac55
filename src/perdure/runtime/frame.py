"""Where in the program an engine call stands: its step, the call it was made from, and its branch.

A branch is a spawn path (which task of which parent, the k-th child): twins that run in parallel are told apart by it
when a later life meets their rows (F3).
"""

from __future__ import annotations

import itertools
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(slots=True)
class StepScope:
    """The step that calls made now belong to.

    ``physical`` turns true when this life does work in it that no receipt answers; ``guarded`` when its pre-effect
    checkpoint was written in this life; ``fresh`` says that no earlier life has brought it to its end.
    """

    step_id: str
    name: str
    phase: str
    step_index: int
    physical: bool = False
    guarded: bool = False
    fresh: bool = False


@dataclass(slots=True)
class Branch:
    """One spawn path; children are numbered in the order they are spawned."""

    path: str = "0"
    _children: itertools.count[int] = field(default_factory=itertools.count)

    def child(self) -> Branch:
        """Return the branch of the next child."""
        return Branch(f"{self.path}.{next(self._children)}")


@dataclass(frozen=True, slots=True)
class Frame:
    """The place of one engine call."""

    step: StepScope
    parent_call_id: str | None
    branch: str


current_step: ContextVar[StepScope | None] = ContextVar("perdure_step", default=None)
current_parent: ContextVar[str | None] = ContextVar("perdure_parent_call", default=None)
current_branch: ContextVar[Branch | None] = ContextVar("perdure_branch", default=None)


def frame_here(root: StepScope) -> Frame:
    """Return the place of a call made now."""
    branch = current_branch.get()
    return Frame(current_step.get() or root, current_parent.get(), branch.path if branch else "0")
