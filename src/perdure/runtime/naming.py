"""How a call is told to a person."""

from __future__ import annotations

import json
from collections.abc import Mapping

from perdure.core.identity import FILES
from perdure.core.summary import shorten
from perdure.model.toolcall import CallRow
from perdure.store.sql_store import SqlStore

SHORT = 120
MOST_FILES = 3


def named(store: SqlStore, row: CallRow) -> str:
    """Return a call as a person would say it: its tool and its arguments, shortened."""
    arguments = json.loads(store.listed.request(row.call_no))
    files = arguments.pop(FILES, {})
    said = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return f"{row.tool_name}({shorten(said, SHORT + 1)}){_with(files)}"


def _with(files: Mapping[str, str | None]) -> str:
    """Return which bytes belong to it: two calls that differ in nothing else can be told apart."""
    held = [f"{path} (sha256 {digest[:8]})" if digest else f"{path} (not there)" for path, digest in files.items()]
    more = f" and {len(held) - MOST_FILES} more" if len(held) > MOST_FILES else ""
    return f" with {', '.join(held[:MOST_FILES])}{more}" if held else ""
