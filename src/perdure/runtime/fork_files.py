"""The files that a fork begins with: copies of what was recorded up to its checkpoint, each with its hash checked."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perdure.core.forking import first_simulated
from perdure.model.fork import ForkEffects
from perdure.model.toolcall import INNER_NAMESPACES, CallStatus, SideEffectClass
from perdure.ports.clock import FOREVER, format_time
from perdure.runtime.life import Life
from perdure.store.modes import make_folder
from perdure.store.sql_store import SqlStore


def bring_files(life: Life) -> None:
    """Make the workspace of a fork, once: the recorded files of its parent that still are what was recorded.

    A file that has other bytes now, or is gone, is left out: a call whose receipt names it is made again, for anything
    else there is a warning. One that was recorded later, as expected outputs are where a run ends, was there by then
    if it was not written since: its time of change says so, to the few milliseconds that a file system knows of. The
    folder is put in place by one rename, so that a crash leaves all of it or nothing.
    """
    if life.workspace.exists():
        return

    def look(store: SqlStore) -> tuple[Path | None, dict[str, set[str]], str, dict[str, set[str]]]:
        parent = store.runs.get(life.origin.parent_run_id or "")
        place = None if parent is None else Path(parent.workspace)
        return place, _recorded(life, store), *_recorded_later(life, store)

    source, wanted, moment, later = life.ledger.read(look)
    made = life.workspace.with_name(life.workspace.name + ".partial")
    shutil.rmtree(made, ignore_errors=True)
    make_folder(made)
    for path, digests in sorted(wanted.items()):
        if source is None or not _copied(source, made, path, digests):
            life.warn_once(
                f"the fork begins without {path}: in its parent's workspace it is gone, or was changed since"
            )
    for path, digests in sorted(later.items()):
        if path not in wanted and source is not None and _written(source / path) <= moment:
            _copied(source, made, path, digests)
    os.replace(made, life.workspace)


def _recorded_later(life: Life, store: SqlStore) -> tuple[str, dict[str, set[str]]]:
    """Return the moment of the checkpoint, and the hashes of each file that the parent recorded after it."""
    point = store.origins.checkpoint(life.origin.forked_from or "")
    parent = life.origin.parent_run_id or ""
    found: dict[str, set[str]] = defaultdict(set)
    if point is None:
        return "", found
    moment = point.created_at
    if life.origin.fork_effects is ForkEffects.LIVE:
        simulated = first_simulated(store.origins.calls(parent))
        moment = moment if simulated is None else min(moment, simulated.prepared_at or moment)
    for path, sha256, _, created_at in store.steps.artifacts(parent):
        if created_at > moment:
            found[path].add(sha256)
    return moment, found


def _written(file: Path) -> str:
    """Return when a file was written last; one that is gone was written after everything."""
    try:
        return format_time(datetime.fromtimestamp(file.stat().st_mtime, UTC))
    except OSError:
        return FOREVER


def _recorded(life: Life, store: SqlStore) -> dict[str, set[str]]:
    """Return the hashes of each file that was recorded: as an artifact, or in the receipt of a local call."""
    found: dict[str, set[str]] = defaultdict(set)
    for path, sha256, _, _ in store.steps.artifacts(life.run_id):
        found[path].add(sha256)
    for row in store.origins.calls(life.run_id):
        local = row.side_effect_class is SideEffectClass.LOCAL and row.tool_namespace not in INNER_NAMESPACES
        response = store.calls.response(row.call_no) if local and row.status is CallStatus.SUCCEEDED else None
        if response is not None and '"sha256"' in response:
            said: Any = json.loads(response)
            path, digest = (said.get("path"), said.get("sha256")) if hasattr(said, "get") else (None, None)
            if isinstance(path, str) and isinstance(digest, str):
                found[path].add(digest)
    return found


def _copied(source: Path, target: Path, path: str, digests: set[str]) -> bool:
    file = source / path
    inside = file.resolve().is_relative_to(source.resolve())
    if not inside or not file.is_file():
        return False
    place = target / path
    place.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with file.open("rb") as read, place.open("wb") as write:
        while block := read.read(1 << 20):
            digest.update(block)
            write.write(block)
    if digest.hexdigest() not in digests:
        place.unlink()
        return False
    shutil.copystat(file, place)
    return True
