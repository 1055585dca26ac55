"""What a person's consent changes about a call that was not sent yet: its request, and until when it may be sent."""

from __future__ import annotations

from perdure.model.run import Authority
from perdure.model.toolcall import CallRow
from perdure.store.payloads import Payloads
from perdure.store.statements import Statements


class ConsentRows:
    """Writes of people to rows of ``tool_calls`` that await their consent."""

    def __init__(self, statements: Statements) -> None:
        self._do = statements
        self._payloads = Payloads(statements)

    def edit(
        self, row: CallRow, authority: Authority, now: str, *, request: str, args_hash: str, scope: str | None
    ) -> None:
        """Store the request as a person has changed it; the call keeps its identity, and was never sent."""
        self._rewrite("edit_request", row, authority, now, (request, args_hash, scope))

    def note_sent(
        self, row: CallRow, authority: Authority, now: str, *, request: str, args_hash: str, scope: str | None
    ) -> None:
        """Store what a call that was never sent is about to send, where that was not known when it was asked for."""
        self._rewrite("note_sent_request", row, authority, now, (request, args_hash, scope))

    def _rewrite(
        self, statement: str, row: CallRow, authority: Authority, now: str, sends: tuple[str, str, str | None]
    ) -> None:
        request, args_hash, scope = sends
        self._do.write_one(
            statement,
            call_no=row.call_no,
            run_id=authority.run_id,
            fence=authority.fence,
            now=now,
            request=self._payloads.keep(request),
            edited_args_hash=args_hash,
            edited_scope=scope,
        )

    def extend_validity(self, call_no: int, authority: Authority, now: str, *, valid_until: str) -> None:
        """Let a call be sent until a later time, because a person has decided about it again."""
        run_id, fence = authority
        self._do.write_one(
            "extend_validity", call_no=call_no, run_id=run_id, fence=fence, now=now, valid_until=valid_until
        )
