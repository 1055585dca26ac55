"""Async agents that hold up their own event loop, with effects before and after."""

import time
from typing import Any

from waiting import sibling

SECONDS = 2.0


async def holds_up_its_loop(run: Any) -> dict[str, Any]:
    """Between two sends, nothing of the loop runs for several leases."""
    url, tag = run.inputs["url"], run.inputs["tag"]
    first = await sibling(url, f"{tag}:first")
    (run.workspace / "blocked").touch()
    time.sleep(SECONDS)
    last = await sibling(url, f"{tag}:last")
    return {"first": first["id"], "last": last["id"]}
