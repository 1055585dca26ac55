"""What one schedule is: a program, and what happens to each of its lives. Plain values, a function of two numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.crash.loop import Program


@dataclass(frozen=True, slots=True)
class Kill:
    """How a life is ended from outside.

    Args:
        how: `point` (the numbered point `number`, by `os._exit`), `line` (SIGKILL once the provider has written `number`
            lines about this run), `held` and `held_before` (SIGKILL while the provider keeps the request for `name` in its
            hands, after or before its effect), `stop` (SIGSTOP there, and a resume beside it), `soon` (SIGKILL after
            `number` milliseconds), `syscall` (SIGKILL by strace at the `number`-th call of `name` of one thread), `tool`
            (by `os._exit`, when the tool `name` has returned).
        kind: the endpoint that serves `name`.
        late: the kept request is let go only when the next life has begun.
        wakes: a stopped life goes on (else it is killed by the one that takes over).
    """

    how: str
    number: int = 0
    name: str = ""
    kind: str = ""
    late: bool = False
    wakes: bool = False


@dataclass(frozen=True, slots=True)
class Trouble:
    """What the provider does wrong to one of the next requests (`kind` names the endpoint)."""

    kind: str
    name: str | None
    how: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """One life: what is arranged before it, how it is killed, and whether another process resumes at the same moment."""

    kill: Kill | None = None
    troubles: tuple[Trouble, ...] = ()
    rival: bool = False
    forget_keys: bool = False
    clock_ahead_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Piece:
    """A program and what may be done to it without breaking what its tools declare.

    Args:
        kinds: which endpoint serves each effect.
        lags: the search of its provider lags and requests land late, within the probe lag that its tools declare.
        ordinary: a 5xx answer says nothing; else it means something to the program.
        tolerant: the program goes on when a person gives up or denies.
        outlives: what it starts may live on when it is killed, so a question is never needless.
    """

    program: Program
    kinds: dict[str, str] = field(hash=False)
    lags: bool = False
    ordinary: bool = True
    tolerant: bool = False
    outlives: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """A piece, its lives, and the person who answers.

    Args:
        label: with it the schedule can be played again.
        person: `honest`, `gives_up` (abandons some calls) or `denies` (some approvals).
        commands: lives are those of the command `perdure` in interpreters of their own.
        answers: where the person answers: `library`, `forked` (the command line in a forked process) or `command`.
        answer_at_point: each answer is first given by a process that dies at this point.
        answer_resumes: an answer goes on with the run (`--resume`).
    """

    label: str
    piece: Piece
    lives: tuple[Plan, ...]
    person: str = "honest"
    commands: bool = False
    answers: str = "library"
    answer_at_point: int = 0
    answer_resumes: bool = False
