"""What must hold of the rows of a ledger, one row at a time: pure rules, with the words for what does not hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perdure.core.identity import idempotency_key
from perdure.core.marks import has_mark
from perdure.core.redact import has_telling_name
from perdure.core.seals import Settled, may_follow
from perdure.model.toolcall import MEMO_NAMESPACE, CallKey, CallStatus

_STARTED = frozenset({CallStatus.RUNNING, CallStatus.IN_DOUBT, CallStatus.SUCCEEDED})
_STATUSES = frozenset(item.value for item in CallStatus)
_SETTLED = frozenset(item.value for item in CallStatus if item.settled)
_ENDED = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that does not hold.

    Args:
        kind: a stable word for programs.
        subject: the id of the row, the name of the file or of the table.
        says: one sentence.
        is_warning: worth knowing, and no damage.
    """

    kind: str
    subject: str
    says: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class AuditedCall:
    """What is looked at of one call.

    Args:
        sealed_calls: how many calls of its run a seal has looked at.
        due: it is known to wait for the next seal.
        seal: status, receipt hash and row hash of its newest entry.
    """

    call_no: int
    row: Settled
    occurrence: int
    effect_scope: str | None
    prepared_at: str | None
    sealed_calls: int
    due: bool
    evidence_attempt: int
    named_exist: bool
    has_question: bool
    run_status: str
    seal: tuple[str, str | None, str] | None

    @property
    def number(self) -> int:
        """Which call of its run it is, by its id."""
        tail = self.row.tool_call_id.rpartition(".")[2]
        return int(tail) if tail.isdecimal() else 0


def call_problems(call: AuditedCall, ledger_id: str) -> Iterator[Problem]:
    """Yield what does not hold of a call beside its seal."""
    row = call.row
    if row.status not in _STATUSES:
        yield Problem("status", row.tool_call_id, f"{row.status!r} is no state of a call")
        return
    status = CallStatus(row.status)
    for wrong, kind, says in (
        (status.settled and row.finished_at is None, "times", f"it is {status} and has no time at which it ended"),
        (not status.settled and row.finished_at is not None, "times", f"it is {status} and has ended"),
        (call.prepared_at is None, "times", "it has no time at which it was asked for"),
        (_not_started(row, status), "times", f"it is {status} and was never started"),
        (row.attempt < 0 or call.evidence_attempt > row.attempt, "attempts", _attempts_said(call)),
        (status is CallStatus.SUCCEEDED and row.response_ref is None, "no_receipt", "it succeeded without a receipt"),
        (status is CallStatus.FAILED and not row.error_code, "no_error", "it failed and says not of what"),
        (not call.named_exist, "orphan", "a call that it names (same_as, repeat_of) is not in the ledger"),
        (
            status is CallStatus.AWAITING_APPROVAL and not call.has_question and call.run_status not in _ENDED,
            "no_question",
            "it waits for a person, and nobody is asked",
        ),
    ):
        if wrong:
            yield Problem(kind, row.tool_call_id, says)
    key = CallKey(row.tool_namespace, row.tool_name, row.normalized_args_hash)
    if _scope_is_plain(call.effect_scope):
        made = idempotency_key(ledger_id, row.run_id, key, call.effect_scope, call.occurrence)
        if made != row.idempotency_key:
            yield Problem("key", row.tool_call_id, "its idempotency key is not the one that run and arguments make")


def _not_started(row: Settled, status: CallStatus) -> bool:
    if row.tool_namespace == MEMO_NAMESPACE or status not in _STARTED:
        return False
    return row.started_at is None or row.attempt < 1


def _scope_is_plain(scope: str | None) -> bool:
    """Return whether the key can be made again from the row: a scope with a secret goes into it as a keyed hash."""
    return scope is None or not (has_mark(scope) or has_telling_name(scope.encode("utf-8", "surrogatepass")))


def _attempts_said(call: AuditedCall) -> str:
    return f"it counts {call.row.attempt} attempts, and its evidence speaks of number {call.evidence_attempt}"


def seal_problem(call: AuditedCall, sealed_after: int) -> tuple[str, Problem | None]:
    """Return how a call stands to the chain (``sealed``, ``not_yet``, ``older``, ``open``) and what is wrong with it.

    Args:
        sealed_after: the newest call that was there before the chain began.
    """
    row, settled = call.row, call.row.status in _SETTLED
    looked_at = call.number <= call.sealed_calls and not call.due
    if call.seal is None:
        if call.call_no <= sealed_after and settled:
            return "older", None
        if looked_at:
            return "not_yet", Problem("seal_missing", row.tool_call_id, "it was sealed, and its seal is gone")
        return ("not_yet" if settled else "open"), None
    status, receipt, digest = call.seal
    if settled and digest == row.sha256():
        return "sealed", None
    legal = call.due and (may_follow(status, receipt, row.status) if settled else status == CallStatus.FAILED)
    if legal:
        return ("not_yet" if settled else "open"), None
    return "not_yet", Problem("edited", row.tool_call_id, f"it was changed since it was sealed as {status}")


@dataclass(frozen=True, slots=True)
class AuditedRun:
    """What is looked at of one run; counts are of its calls, ``highest`` is the greatest number in their ids."""

    run_id: str
    status: str
    reason: str | None
    result_ref: str | None
    error_code: str | None
    lease_owner: str | None
    lease_expires_at: str | None
    lease_fence: int
    attempt: int
    sealed_calls: int
    calls: int
    never_sent: int
    running: int
    in_doubt: int
    lives: int
    newest_fence: int
    unended_lives: int
    awaited: int


def run_problems(run: AuditedRun) -> Iterator[Problem]:
    """Yield what does not hold of a run and between it and its rows."""
    ended = run.status in _ENDED
    asks = run.status == "waiting" and run.reason in ("in_doubt", "approval", "challenge")
    unleased = run.lease_owner is None or run.lease_expires_at is None
    for wrong, kind, says in (
        (run.status == "running" and unleased, "no_lease", "it is running and nobody owns it"),
        (ended and run.lease_owner is not None, "lease", "it has ended and is owned by a process"),
        (run.status == "succeeded" and run.error_code is not None, "run_state", "it succeeded and has an error"),
        (run.status == "failed" and run.error_code is None, "run_state", "it failed and says not of what"),
        (ended and run.never_sent > 0, "open_calls", f"it has ended with {run.never_sent} calls that were never sent"),
        (ended and run.running > 0, "open_calls", f"it has ended with {run.running} calls still running"),
        (run.status == "succeeded" and run.in_doubt > 0, "open_calls", "it succeeded with a call in doubt"),
        (asks and run.awaited == 0, "no_question", f"it waits ({run.reason}), and nobody is asked"),
        (run.lives != run.attempt, "lives", f"it counts {run.attempt} lives, and has {run.lives}"),
        (run.newest_fence > run.lease_fence, "fence", "one of its lives has a newer fence than the run"),
        (run.sealed_calls > run.calls, "missing_calls", _missing(run)),
    ):
        if wrong:
            yield Problem(kind, run.run_id, says)
    open_lives = run.unended_lives - (1 if run.status == "running" else 0)
    if open_lives > 0:
        yield Problem("lives", run.run_id, f"{open_lives} of its lives never ended", is_warning=True)


def _missing(run: AuditedRun) -> str:
    return f"{run.sealed_calls} of its calls were looked at by a seal, and {run.calls} are there"
