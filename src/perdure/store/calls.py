"""Rows of calls: every move is a compare-and-set on the state it leaves and on the run's fence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.core.transitions import CallEvent, next_call_status
from perdure.model.errors import CancelSeen, LeaseLost, StoreError
from perdure.model.run import Authority
from perdure.model.toolcall import (
    CHALLENGED,
    CallKey,
    CallRow,
    CallStatus,
    Evidence,
    ReplayPolicy,
    SideEffectClass,
    UnmetRow,
)
from perdure.ports.store import Row
from perdure.store.changes import Changes
from perdure.store.new_call import NewCall, minted
from perdure.store.payloads import Payloads
from perdure.store.statements import Statements


class CallRows:
    """The ``tool_calls``, ``evidence`` and ``payloads`` tables."""

    def __init__(self, statements: Statements, changes: Changes) -> None:
        self._do = statements
        self._changes = changes
        self._payloads = Payloads(statements)

    # --- reading -------------------------------------------------------------------------------------------------

    def get(self, call_no: int) -> CallRow:
        """Return one row by its number."""
        row = self._do.one("get_call", call_no=call_no)
        if row is None:
            raise StoreError(f"the ledger has no call number {call_no}")
        return call_of_row(row)

    def by_id(self, tool_call_id: str) -> CallRow | None:
        """Return one row by its public id."""
        row = self._do.one("get_call_by_id", tool_call_id=tool_call_id)
        return call_of_row(row) if row else None

    def by_dedupe_key(self, dedupe_key: str) -> CallRow | None:
        """Return the row, not void, that owns a dedupe key in this ledger (F1)."""
        row = self._do.one("get_call_by_dedupe", dedupe_key=dedupe_key)
        return call_of_row(row) if row else None

    def index(self, run_id: str) -> Iterator[UnmetRow]:
        """Yield what the index of unmet rows keeps, oldest first."""
        return map(UnmetRow._make, self._do.rows("index_calls", run_id=run_id))

    def open(self, run_id: str) -> list[CallRow]:
        """Return the rows of a run that are not settled, oldest first."""
        return [call_of_row(row) for row in self._do.rows("open_calls", run_id=run_id)]

    def same_tool(self, run_id: str, key: CallKey) -> list[CallRow]:
        """Return all rows of one tool in a run, oldest first."""
        rows = self._do.rows("kin_calls", run_id=run_id, tool_name=key.tool_name, namespace=key.namespace)
        return [call_of_row(row) for row in rows]

    def count(self, run_id: str) -> int:
        """Return how many rows a run has, memos included."""
        return int(self._do.value("next_call_number", run_id=run_id))

    def last_occurrence(self, run_id: str, key: CallKey) -> int:
        """Return the occurrence of the newest equal row, or 0."""
        return int(
            self._do.value(
                "last_occurrence",
                run_id=run_id,
                args_hash=key.args_hash,
                tool_name=key.tool_name,
                namespace=key.namespace,
            )
        )

    def response(self, call_no: int) -> str | None:
        """Return the receipt's value as tagged JSON, as it was."""
        return self._payloads.load(self._do.value("stored_response", call_no=call_no))

    def request(self, call_no: int) -> str:
        """Return the exact request as tagged JSON.

        Raises:
            SecretUnavailable: a secret in it cannot be read any more.
        """
        return self._payloads.load(self._do.value("stored_request", call_no=call_no)) or "{}"

    def ref_owner(self, tool_name: str, ref: str) -> str | None:
        """Return the id of the succeeded call that a provider's reference belongs to (R6)."""
        row = self._do.one("ref_owner", tool_name=tool_name, ref=ref)
        return row[0] if row else None

    def cause(self, tool_call_id: str) -> str | None:
        """Return the id of the inner call whose failure this one passed on."""
        row = self._do.one("call_cause", tool_call_id=tool_call_id)
        return row[0] if row else None

    def counts(self, run_id: str) -> dict[str, int]:
        """Return how many tool calls of a run are in each state."""
        return {row[0]: row[1] for row in self._do.rows("count_calls", run_id=run_id)}

    def effects(self, run_id: str, tool_name: str) -> int:
        """Return how many calls of a tool succeeded in a run."""
        return int(self._do.value("count_effects", run_id=run_id, tool_name=tool_name))

    def reads(self, run_id: str) -> list[int]:
        """Return the numbers of the calls by which a run has read something."""
        return [row[0] for row in self._do.rows("read_calls", run_id=run_id)]

    def expired(self, run_id: str, because: str) -> list[int]:
        """Return the numbers of the calls that were refused with a reason that begins so."""
        return [row[0] for row in self._do.rows("expired_calls", run_id=run_id, because=because)]

    def duplicates_found(self, run_id: str) -> int:
        """Return how many second successes evidence has shown (#30)."""
        return int(self._do.value("count_duplicates_found", run_id=run_id))

    def evidence(self, tool_call_id: str) -> list[Evidence]:
        """Return all evidence about a call, oldest first."""
        return [Evidence(*row) for row in self._do.rows("list_evidence", tool_call_id=tool_call_id)]

    # --- writing -------------------------------------------------------------------------------------------------

    def insert(self, new: NewCall, now: str) -> CallRow:
        """Insert a row and return it."""
        running = new.status is CallStatus.RUNNING
        self._begin(
            "insert_call",
            tool_call_id=new.tool_call_id,
            run_id=new.run_id,
            step_id=new.step_id,
            now=now,
            tool_name=new.key.tool_name,
            raw_tool_name=new.raw_tool_name,
            namespace=new.key.namespace,
            side_effect_class=new.side_effect_class,
            replay_policy=new.replay_policy,
            guarantee=new.guarantee,
            policy_rule=new.policy_rule,
            args_hash=new.key.args_hash,
            effect_scope=new.effect_scope,
            occurrence=new.occurrence,
            idempotency_key=new.idempotency_key,
            dedupe_key=new.dedupe_key,
            status=new.status,
            attempt=1 if running else 0,
            fence=new.fence,
            branch=new.branch,
            parent_call_id=new.parent_call_id,
            call_index=new.call_index,
            repeat_of=new.repeat_of,
            request=self._payloads.keep(new.request),
            started_at=now if running else None,
            finished_at=now if new.status.settled else None,
            key_expires_at=new.key_expires_at,
            valid_until=new.valid_until,
            not_before=new.not_before,
            error_code=new.error_code,
            error_detail=new.error_detail,
            simulated=new.simulated,
        )
        note = new.error_code or ("attempt 1" if running else "")
        self._changes.tell(new.run_id, "call", new.tool_call_id, new.key.tool_name, new.status, now, note)
        return minted(self._do.last_row(), new, now)

    def start(
        self,
        row: CallRow,
        authority: Authority,
        now: str,
        *,
        key_expires_at: str | None = None,
        repeat_of: str | None = None,
    ) -> None:
        """Commit ``running`` for the next attempt, from prepared or, for the same key, from in doubt."""
        event = CallEvent.DISPATCH if row.status is CallStatus.PREPARED else CallEvent.SEND_AGAIN
        next_call_status(row.status, event)
        self._begin(
            "start_call",
            run_id=authority.run_id,
            fence=authority.fence,
            call_no=row.call_no,
            status=row.status,
            now=now,
            key_expires_at=key_expires_at,
            repeat_of=repeat_of,
        )
        self._moved(row, CallStatus.RUNNING, now, f"attempt {row.attempt + 1}")

    def _begin(self, name: str, *, run_id: str, fence: int, **parameters: Any) -> None:
        """Write a row that may start; ``CancelSeen`` where somebody has asked for the run's end, which it looks at."""
        if self._do.write(name, run_id=run_id, fence=fence, **parameters) == 1:
            return
        if self._do.one("cancel_asked", run_id=run_id, fence=fence) is not None:
            raise CancelSeen
        raise LeaseLost(f"the write {name} of {run_id} was refused: this process no longer owns the run")

    def take_back(self, row: CallRow, authority: Authority, now: str) -> None:
        """Undo a start that nothing followed: the attempt was not made and is not counted."""
        next_call_status(row.status, CallEvent.RERUN)
        run_id, fence = authority
        self._do.write_one(
            "take_back_call", call_no=row.call_no, status=row.status, run_id=run_id, fence=fence, now=now
        )
        self._moved(row, CallStatus.PREPARED, now, "nothing was sent")

    def try_succeed(
        self, row: CallRow, authority: Authority, now: str, *, response: str, ref: str | None, delivered_seq: int | None
    ) -> bool:
        """Store the receipt if the row still is as ``row`` says; return whether it was."""
        next_call_status(row.status, CallEvent.DONE)
        changed = self._do.write(
            "succeed_call",
            call_no=row.call_no,
            status=row.status,
            run_id=authority.run_id,
            fence=authority.fence,
            now=now,
            response=self._payloads.keep(response),
            ref=ref,
            delivered_seq=delivered_seq,
        )
        if changed == 1:
            self._moved(row, CallStatus.SUCCEEDED, now, "")
        return changed == 1

    def succeed(
        self, row: CallRow, authority: Authority, now: str, *, response: str, ref: str | None, delivered_seq: int | None
    ) -> None:
        """Store the receipt; raises ``LeaseLost`` where the row has moved on."""
        if not self.try_succeed(row, authority, now, response=response, ref=ref, delivered_seq=delivered_seq):
            raise LeaseLost(f"the receipt of {row.tool_call_id} was refused: this process no longer owns the run")

    def move(
        self,
        row: CallRow,
        event: CallEvent,
        authority: Authority,
        now: str,
        *,
        not_before: str | None = None,
        error_code: str | None = None,
        error_detail: str | None = None,
        same_as: str | None = None,
        caused_by: str | None = None,
    ) -> CallStatus:
        """Move a row by an event of the transition table and return its new state."""
        to_status = next_call_status(row.status, event)
        self._do.write_one(
            "move_call",
            call_no=row.call_no,
            status=row.status,
            to_status=to_status,
            run_id=authority.run_id,
            fence=authority.fence,
            now=now,
            finished_at=now if to_status.settled else None,
            not_before=not_before,
            error_code=error_code,
            error_detail=error_detail,
            same_as=same_as,
            caused_by=caused_by,
        )
        if row.status.settled:
            self._do.write("seal_again", run_id=row.run_id, tool_call_id=row.tool_call_id)
        self._moved(row, to_status, now, error_code or "")
        return to_status

    def challenge(self, row: CallRow, authority: Authority, now: str, *, response: str, error_detail: str) -> None:
        """End a call that was held back, with what its caller is told of the effects that speak against it."""
        next_call_status(row.status, CallEvent.REFUSED)
        self._do.write_one(
            "challenge_call",
            call_no=row.call_no,
            status=row.status,
            run_id=authority.run_id,
            fence=authority.fence,
            now=now,
            response=self._payloads.keep(response),
            error_detail=error_detail,
        )
        self._moved(row, CallStatus.FAILED, now, CHALLENGED)

    def told_happened(self, run_id: str) -> list[CallRow]:
        """Return the calls of a run that happened by a person's word, and gave nothing back."""
        return [call_of_row(row) for row in self._do.rows("told_happened", run_id=run_id)]

    def amend(self, row: CallRow, authority: Authority, now: str, *, response: str, ref: str | None) -> None:
        """Add the value that a person left out when they said that a call had happened."""
        kept = self._payloads.keep(response)
        run_id, fence = authority
        self._do.write_one(
            "amend_receipt", call_no=row.call_no, run_id=run_id, fence=fence, now=now, response=kept, ref=ref
        )
        self._do.write("seal_again", run_id=row.run_id, tool_call_id=row.tool_call_id)

    def adopt(self, call_no: int, authority: Authority, now: str, *, parent_call_id: str | None, branch: str) -> None:
        """Move a row to the caller that adopted it."""
        self._do.write_one(
            "adopt_call",
            call_no=call_no,
            run_id=authority.run_id,
            fence=authority.fence,
            now=now,
            parent_call_id=parent_call_id,
            branch=branch,
        )

    def let_go(self, call_no: int, authority: Authority, now: str) -> None:
        """Take a row out of the call it was made inside, because that call ended without asking for it."""
        run_id, fence = authority
        self._do.write_one("let_go_call", call_no=call_no, run_id=run_id, fence=fence, now=now)

    def try_set_handle(self, call_no: int, authority: Authority, handle: str | None, now: str) -> bool:
        """Store the handle of a long remote job, and return whether this owner still had the right to."""
        run_id, fence = authority
        return self._do.write("set_handle", call_no=call_no, run_id=run_id, fence=fence, handle=handle, now=now) == 1

    def add_evidence(self, tool_call_id: str, evidence: Evidence) -> None:
        """Append one fact; evidence needs no fence, because a late reply of an old owner counts too."""
        self._do.write(
            "add_evidence",
            tool_call_id=tool_call_id,
            kind=evidence.kind,
            now=evidence.at,
            actor=evidence.actor,
            attempt=evidence.attempt,
            says=evidence.says,
            detail=evidence.detail,
            ref=evidence.ref,
        )

    def _moved(self, row: CallRow, status: CallStatus, now: str, note: str) -> None:
        self._changes.tell(row.run_id, "call", row.tool_call_id, row.tool_name, status, now, note)


_CLASSES = {item.value: item for item in SideEffectClass}
_POLICIES = {item.value: item for item in ReplayPolicy}
_STATUSES = {item.value: item for item in CallStatus}


def call_of_row(row: Row) -> CallRow:
    """Return the call of a row of the columns ``call``."""
    return CallRow(
        row[0],
        row[1],
        row[2],
        row[3],
        row[4],
        row[5],
        _CLASSES[row[6]],
        _POLICIES[row[7]],
        _STATUSES[row[8]],
        *row[9:],
    )
