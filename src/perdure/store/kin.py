"""The few calls that another one may be mistaken for: a question that is asked before every effect."""

from __future__ import annotations

import json

from perdure.model.toolcall import CallKey, CallRow
from perdure.store.calls import call_of_row
from perdure.store.statements import Statements


class KinRows:
    """Rows of ``tool_calls`` by what they do (semantics R1); only read."""

    def __init__(self, statements: Statements) -> None:
        self._do = statements

    def near(
        self,
        run_id: str,
        meant: tuple[tuple[CallKey, str | None], ...],
        *,
        own: int,
        cited: str | None,
        listed: list[int],
    ) -> list[CallRow]:
        """Return the rows that may be kin of a call, as ``kin`` then tells, or have to do with what it cites.

        A run may have done ten thousand effects by one tool; only these few of them are looked at for the next one.

        Args:
            meant: what the call is by key and scope, and what an edit has made of it.
            own: its own row's number, which is left out.
            cited: the id that it cites; rows that cited it are among what is found.
            listed: numbers of rows that a challenge has told its reader of.
        """
        (key, scope), (edited, edited_scope) = meant[0], meant[-1]
        rows = self._do.rows(
            "near_calls",
            run_id=run_id,
            tool_name=key.tool_name,
            namespace=key.namespace,
            call_no=own,
            args_hash=key.args_hash,
            edited_hash=edited.args_hash,
            effect_scope=scope,
            edited_scope=edited_scope,
            cited=cited,
            listed=json.dumps(listed),
        )
        return [call_of_row(row) for row in rows]

    def without_ref(self, row: CallRow, limit: int) -> list[CallRow]:
        """Return succeeded rows that a provider's reference could belong to as well, newest first (R6)."""
        rows = self._do.rows(
            "refless_kin",
            tool_name=row.tool_name,
            namespace=row.tool_namespace,
            call_no=row.call_no,
            args_hash=row.args_hash,
            effect_scope=row.effect_scope,
            edited_hash=row.edited_args_hash,
            edited_scope=row.edited_scope,
            run_id=row.run_id,
            limit=limit,
        )
        return [call_of_row(item) for item in rows]
