"""What the tests of a run's files share: where they are, and tools that make or lose something."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perdure import CallContext, tool
from tests.integration.engine_support import Outside, open_engine

PACKET, PAGE, REPORT = "resume_packet_r1.md", "job_completion_r1.md", "job_completion_r1.json"


def workspace(folder: Path) -> Path:
    return folder / "state/workspaces/r1"


def report(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((workspace(folder) / REPORT).read_text("utf-8"))
    return document


def run_row(folder: Path, column: str) -> Any:
    with open_engine(folder) as engine:
        return engine._ledger.read(lambda store: store.connection.rows(f"SELECT {column} FROM runs", {}).__next__()[0])


@tool(side_effect_class="local")
def make(path: str, text: str, *, call: CallContext) -> dict[str, Any]:
    import hashlib

    (call.workspace / path).write_text(text)
    return {"path": path, "sha256": hashlib.sha256(text.encode()).hexdigest(), "size_bytes": len(text)}


def lost(outside: Outside) -> Any:
    """Return a mail tool that loses the outcome of its first call, and whose probe finds it."""

    @tool(name="send", side_effect_class="external", scope=["to"], probe_lag=0)
    def send(to: str) -> str:
        outside.sent.append(to)
        if len(outside.sent) == 1:
            raise ConnectionError("the answer was lost")
        return f"sent {to}"

    return send
