"""What a critic sees of a phase that has ended, and what it may say (R011)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
MARK = "perdure_critic"


@dataclass(frozen=True, slots=True)
class PhaseView:
    """A phase of a run that has ended; nothing in it can be changed.

    Args:
        occurrence: the k-th time that the run was in this phase.
        steps: name, status, error of each of its steps.
        calls: tool_call_id, tool_name, status, external_correlation_id of each tool call in them.
        artifacts: path, sha256, size_bytes of the newest recorded files.
    """

    run_id: str
    phase: str
    occurrence: int
    objective: str
    inputs: Mapping[str, Any]
    steps: tuple[Mapping[str, Any], ...]
    calls: tuple[Mapping[str, Any], ...]
    artifacts: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Annotate:
    """The critic has something to say, and the run goes on; it is stored and shown with the run."""

    text: str


@dataclass(frozen=True, slots=True)
class Veto:
    """The critic holds the run back: a person is asked whether it goes on."""

    text: str


def on_phase_end(function: F) -> F:
    """Make a function the critic of the agents in its module: it is called once for each phase that has ended.

    It gets a ``PhaseView`` and returns ``None``, a text or ``Annotate``, or ``Veto``. What it raises ends the run.
    """
    setattr(function, MARK, True)
    return function
