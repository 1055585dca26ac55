"""Where a run comes from, and how a fork treats effects."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RunMode(StrEnum):
    """How a run was started (R108)."""

    JOB = "job"
    FUNCTION = "function"
    SCOPE = "scope"
    FORK = "fork"


class ForkEffects(StrEnum):
    """What a fork does with a call that has an effect."""

    SIMULATE = "simulate"
    LIVE = "live"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a run comes from, and what is known of the session that its provider keeps.

    Args:
        parent_run_id: the run it was forked from.
        forked_from: the checkpoint of that run; ``None`` for a fork from the very beginning.
        fork_effects: ``simulate`` or ``live``; ``None`` for a run that is no fork.
        last_job_prompt: what the agent was last told to do, as it was reported.
        provider_session_id: the provider's own id of the conversation; ``None`` where none is known or valid.
        provider_session_forked_from: the session of the parent, of which a fork of a conversation is made.
    """

    run_mode: RunMode = RunMode.FUNCTION
    parent_run_id: str | None = None
    forked_from: str | None = None
    fork_effects: ForkEffects | None = None
    last_job_prompt: str | None = None
    provider_session_id: str | None = None
    provider_session_forked_from: str | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One row of ``checkpoints``; ``snapshot`` and ``cursor`` are JSON."""

    checkpoint_id: str
    run_id: str
    step_id: str
    created_at: str
    kind: str
    snapshot: str
    cursor: str
    provider_session_id: str | None
