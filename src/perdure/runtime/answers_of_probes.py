"""What the answer of a probe is worth, and the receipt where it shows success (R6)."""

from __future__ import annotations

import json

from perdure.core.codec import encode_or_repr
from perdure.model.errors import ConstraintViolated
from perdure.model.toolcall import CallKey, CallRow, CallStatus
from perdure.ports.tool import Probe
from perdure.runtime import recording
from perdure.runtime.life import Life
from perdure.store.sql_store import SqlStore


def store_probe(life: Life, store: SqlStore, row: CallRow, answer: Probe) -> tuple[CallRow, str]:
    """Record a probe's answer and, where it shows success, the receipt (R6); return the row and the verdict."""
    current = store.calls.get(row.call_no)
    verdict, reason = _weigh(store, current, answer)
    detail = json.dumps({"complete": answer.complete, "reason": reason or answer.reason})
    recording.add_evidence(life, store, row, "probe", verdict, detail=detail, ref=answer.ref)
    if verdict == "happened" and current.status is CallStatus.IN_DOUBT:
        text, _ = encode_or_repr(answer.result)
        try:
            store.calls.succeed(current, life.authority, life.now(), response=text, ref=answer.ref, delivered_seq=None)
        except ConstraintViolated:
            return current, "unknown"
        recording.close_question(life, store, row, "the probe found it")
    return store.calls.get(row.call_no), verdict


def _weigh(store: SqlStore, row: CallRow, answer: Probe) -> tuple[str, str]:
    if answer.verdict == "happened":
        if answer.ref is None:
            key = CallKey(row.tool_namespace, row.tool_name, row.args_hash)
            kin_done = any(
                item.status is CallStatus.SUCCEEDED and item.call_no != row.call_no
                for item in store.calls.same_tool(row.run_id, key)
            )
            return ("unknown", "happened without a ref beside a succeeded kin") if kin_done else ("happened", "")
        owner = store.calls.ref_owner(row.tool_name, answer.ref)
        if owner is not None and owner != row.tool_call_id:
            return "unknown", f"the reference belongs to {owner}"
        return "happened", ""
    if answer.verdict == "not_happened" and not answer.complete:
        return "unknown", "the listing was not complete"
    return answer.verdict, ""
