"""Accept a run: its row stands before anything else happens, and its specification never changes (R016, R124)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perdure.core.codec import Unstorable, canonical, from_tagged, to_tagged
from perdure.model.errors import SpecError, SpecMismatch
from perdure.model.fork import RunMode
from perdure.model.run import SCOPE_AGENT, RunRow, RunSpec
from perdure.runtime.life import Surroundings
from perdure.store.sql_store import SqlStore

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")


def accept(
    around: Surroundings,
    spec: RunSpec,
    run_id: str | None,
    *,
    path: str | None,
    policies: Sequence[str],
    entrypoint: str,
    workspaces: Path,
) -> str:
    """Record a run, or find the one that has this id and this specification, and return its id.

    Args:
        spec: what is stored and hashed.
        run_id: the caller's, or ``None`` for a fresh one.
        path: the job file or the agent's file, from which another process can resume.
        policies: the overlays given beside those of the job file; every later life is under them too.
        entrypoint: who asks: ``cli`` or ``library``.
        workspaces: the folder in which the run's own one is.

    Raises:
        SpecError: the id or an input is of the wrong form.
        SpecMismatch: the id is taken by another specification.
    """
    document = spec.as_document()
    vault = around.ledger.vault
    for what, name in (("run id", run_id or ""), ("name", spec.name)):
        vault.refuse_in_name(what, name)
    text, digest = stored_spec(document, vault.digest)
    chosen = checked_id(around, run_id)
    new_row = {
        "run_id": chosen,
        "name": spec.name,
        "now": around.clock.now(),
        "entrypoint": entrypoint,
        "spec": text,
        "spec_hash": digest,
        "job_path": path,
        "policies": json.dumps(list(policies)),
        "workspace": str(_workspace(spec, chosen, path, workspaces)),
        "deadline_at": spec.deadline,
        "run_mode": mode_of(spec.agent, path),
        "last_job_prompt": spec.objective or None,
    }
    around.ledger.run(lambda store: _record(store, new_row, document))
    return chosen


def checked_id(around: Surroundings, run_id: str | None) -> str:
    """Return the id of a new run: the caller's, or a fresh one.

    Raises:
        SpecError: it is of the wrong form.
    """
    if run_id is not None and not _RUN_ID.match(run_id):
        raise SpecError([f"run id {run_id!r}: letters, digits, '.', '_' and '-', at most 100"])
    return run_id or "r" + around.new_token()


def mode_of(agent: str, path: str | None) -> RunMode:
    """Return how a run is started: by a job file, around a script, or from a function (R108)."""
    if agent == SCOPE_AGENT:
        return RunMode.SCOPE
    return RunMode.JOB if path is not None and Path(path).suffix != ".py" else RunMode.FUNCTION


def _workspace(spec: RunSpec, run_id: str, path: str | None, workspaces: Path) -> Path:
    """Return the run's own folder: where ``artifacts.workspace_dir`` says, else among the workspaces of the ledger.

    It is taken from the job file's folder, and ``<id>`` in it stands for the run's id. Without one, each run gets a
    folder of its own in it: two runs must not overwrite each other's files.
    """
    wanted = spec.artifacts.get("workspace_dir")
    if wanted is None:
        return workspaces / run_id
    folder = Path(path).parent if path is not None else Path.cwd()
    named = str(wanted).replace("<id>", run_id)
    return (folder / named if "<id>" in str(wanted) else folder / named / run_id).absolute()


def _record(store: SqlStore, new_row: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    chosen = new_row["run_id"]
    known = store.runs.get(chosen)
    if known is None:
        store.runs.insert(**new_row)
    elif known.spec_hash != new_row["spec_hash"]:
        found = _differences(known, document, store.vault.shown)
        raise SpecMismatch(
            f"run {chosen} exists with another specification:\n" + "\n".join(_lines(found)),
            next_command=_other_ways(known),
            differences=found,
        )


def _other_ways(known: RunRow) -> str:
    """Return what to type where an id is taken by another specification (C18)."""
    if known.job_path is None or known.is_scope:
        return "give it what is stored, or another id for a new run"
    quoted = shlex.quote(known.run_id)
    return (
        f"perdure resume {quoted}   # goes on with the stored one; "
        f"perdure fork {quoted} makes a new run from it, and another id one from nothing"
    )


def spec_of(row: RunRow) -> dict[str, Any]:
    """Return the specification that a run was accepted with."""
    found: dict[str, Any] = from_tagged(json.loads(row.spec_json))
    return found


def stored_spec(document: Mapping[str, Any], digest: Callable[[bytes], str]) -> tuple[str, str]:
    """Return a specification as it is stored, and its hash.

    Raises:
        SpecError: an input has no JSON form.
    """
    try:
        text = json.dumps(to_tagged(document, at="job"), sort_keys=True, ensure_ascii=False)
        return text, digest(canonical(document))
    except Unstorable as problem:
        raise SpecError([f"inputs: {problem}"]) from None


def _differences(known: RunRow, document: Mapping[str, Any], shown: Callable[[str], str]) -> dict[str, tuple[Any, Any]]:
    """Return the keys of a specification that differ, with what is stored and what is given, without secrets."""
    stored = json.loads(known.spec_json)
    given = to_tagged(document)
    return {
        key: (json.loads(shown(json.dumps(stored.get(key)))), json.loads(shown(json.dumps(given.get(key)))))
        for key in sorted({*stored, *given})
        if stored.get(key) != given.get(key)
    }


def _lines(differences: Mapping[str, tuple[Any, Any]]) -> Iterator[str]:
    for key, (stored, given) in differences.items():
        yield f"  {key}: stored {json.dumps(stored)}, given {json.dumps(given)}"
