"""How a call is told to a person."""

from __future__ import annotations

import json

from perdure.model.toolcall import CallRow
from perdure.store.sql_store import SqlStore

SHORT = 120


def named(store: SqlStore, row: CallRow) -> str:
    """Return a call as a person would say it: its tool and its arguments, shortened."""
    arguments = json.loads(store.listed.request(row.call_no))
    said = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return f"{row.tool_name}({said if len(said) <= SHORT else said[:SHORT] + '…'})"
