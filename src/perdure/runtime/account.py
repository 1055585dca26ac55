"""What one life knows of its run's budgets, so that a call that may start costs no question to the ledger."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

from perdure.core.budget import Allowance, Hit, Limit, Usage

ALWAYS_ASKS_AFTER = 3
"""How many equal errors in a row a person is asked about where the job names no number of its own."""


@dataclass(slots=True)
class LifeAccount:
    """The account of a run as one life has read it, kept up with what the life itself has used since.

    It may lie on the high side, never on the low one: what was given back is noticed when the ledger is read again,
    which happens before anything is held back.

    Args:
        budgets: what the job allows; ``allowed`` has the grants added.
        usage: what stood in the ledger, and what this life has started since; its time is ``active_ms`` when it was
            read, at which ``read_at_seconds`` of this life were in it.
        charged_seconds: what of this life stands in the ledger already.
        shared: other runs charge the account too, so that memory is no help.
        stopped_by: the limit that was hit, and what wanted to start.
        question: the inbox item about it.
        retries: granted beside ``max_retries_per_tool_call``.
        repeats: after so many equal errors in a row the run waits; ``None`` counts none.
        escalated: calls about which a person is asked before any other effect starts (R042).
    """

    budgets: Allowance = field(default_factory=Allowance)
    allowed: Allowance = field(default_factory=Allowance)
    usage: Usage = field(default_factory=Usage)
    charged_seconds: float = 0.0
    read_at_seconds: float = 0.0
    shared: bool = False
    stopped_by: tuple[Hit, Limit | None] | None = None
    question: str | None = None
    retries: int = 0
    repeats: int | None = None
    last_error: str | None = None
    last_error_tool: str | None = None
    escalated: set[int] = field(default_factory=set[int])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, usage: Usage) -> None:
        """Take what the ledger says."""
        with self._lock:
            self.usage, self.read_at_seconds = usage, self.charged_seconds

    def hit(self, wants: Limit | None, active_seconds: float) -> Hit | None:
        """Return the limit that keeps something from starting, by what this life knows.

        Args:
            active_seconds: how long this life has been at work.
        """
        if not self.allowed:
            return None
        usage = self.usage
        active_ms = usage.active_ms + int((active_seconds - self.read_at_seconds) * 1000)
        return self.allowed.hit(replace(usage, active_ms=active_ms), wants)

    def took(self, wants: Limit | None) -> None:
        """Count what starts now."""
        if wants is not None:
            self._add(calls=int(wants is Limit.CALLS), steps=int(wants is Limit.STEPS))

    def spent(self, tokens: int, usd_micros: int) -> None:
        """Count what an agent reports."""
        self._add(tokens=tokens, usd_micros=usd_micros)

    def erred(self, error: str | None, tool_name: str | None, count: int) -> None:
        """Remember which error came last and how often in a row."""
        with self._lock:
            self.last_error, self.last_error_tool = error, tool_name
            self.usage = replace(self.usage, errors=count)

    def _add(self, *, calls: int = 0, steps: int = 0, tokens: int = 0, usd_micros: int = 0) -> None:
        with self._lock:
            known = self.usage
            self.usage = replace(
                known,
                calls=known.calls + calls,
                steps=known.steps + steps,
                tokens=known.tokens + tokens,
                usd_micros=known.usd_micros + usd_micros,
            )
