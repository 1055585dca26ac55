"""Files that a local tool has left in the workspace: its receipt names one, and it may be gone (R061)."""

from __future__ import annotations

import json
from typing import Any

from perdure.model.toolcall import INNER_NAMESPACES, CallRow, CallStatus, SideEffectClass
from perdure.runtime.life import Life
from perdure.store.sql_store import SqlStore


def is_lost(life: Life, store: SqlStore, row: CallRow) -> bool:
    """Return whether a receipt of an earlier life names a file of the workspace that is not there any more.

    Only a local call is made again for it, and only its receipt is read: an object with ``path`` and ``sha256`` names a
    file. One that has other bytes now was written by a later call.
    """
    local = row.side_effect_class is SideEffectClass.LOCAL and row.tool_namespace not in INNER_NAMESPACES
    if not local or row.status is not CallStatus.SUCCEEDED:
        return False
    response = store.calls.response(row.call_no)
    if response is None or '"sha256"' not in response:
        return False
    said: Any = json.loads(response)
    path: Any = said.get("path") if hasattr(said, "get") else None
    if not isinstance(path, str):
        return False
    file = life.workspace / path
    inside = file.resolve().is_relative_to(life.workspace.resolve())
    return inside and not file.exists()
