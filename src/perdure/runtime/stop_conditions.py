"""When a run is done, by evidence alone: its stop conditions, expected outputs and sources (R041, R043).

The same look decides at the end of a run and answers a program that asks in the middle, so that a loop which ends when
nothing is unmet ends a run that succeeds.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, cast

from perdure.model.errors import UsageError
from perdure.model.problem import did_you_mean
from perdure.runtime import artifacts, citations, fork_outputs, starting
from perdure.runtime.door import Door
from perdure.runtime.life import Life
from perdure.runtime.request import CallRequest
from perdure.runtime.workspace import inside, measure
from perdure.store.sql_store import SqlStore

_MEMO = "unmet_conditions"
_TO_MEND = ": make the program write it, then resume"


class ConditionsUnmet(Exception):
    """What the job expects is not evidenced, and main has returned, or nothing can evidence it any more."""


def warn_of_unknown_tools(life: Life) -> None:
    """Warn, before anything is sent, of a stop condition whose tool the program does not have: it could never be met.

    A program may bring tools as it goes, so that this is a warning, and none where it has no tool at all yet.
    """
    known = sorted({item.name for item in life.registry})
    for condition in life.spec.get("stop_conditions") or ():
        name = str(_fields(condition).get("effect", ""))
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        if name and known and name not in known:
            hint = did_you_mean(near[0]) if near else f"; its tools are {', '.join(known)}"
            life.warn_once(
                f"stop_conditions: {name!r} is no tool that this program has as it begins, and without {name} the run "
                f"fails at its end{hint}"
            )


def at_the_end(life: Life, store: SqlStore) -> ConditionsUnmet | None:
    """Return what is unmet where main has returned, and record the files that are there with their hashes."""

    def recorded(path: str) -> bool:
        found = measure(life.workspace, path)
        if found is not None:
            artifacts.record(life, store, found)
        return found is not None

    missing = _unmet(life, store, recorded, lambda path: fork_outputs.to_mend(life, store, path) or _TO_MEND)
    return ConditionsUnmet("; ".join(missing)) if missing else None


def asked(door: Door) -> tuple[CallRequest | None, tuple[str, ...]]:
    """Return what is unmet now, and the request by which an answer that is not empty is the same in every life.

    A program that is entered again must take the way that it took, up to where it has got: so what was unmet then is
    told again there. That nothing is unmet is never taken from an earlier life: a file may be gone since.

    Raises:
        UsageError: the job has nothing that could be unmet; a loop that ends by it would end before it began.
        ConditionsUnmet: an effect has happened too often, which no evidence can mend.
    """
    life = door.life
    life.check_open()
    if not _expected(life):
        raise UsageError(
            f"run {life.run_id} has no stop condition and no expected output, so nothing says when it is done",
            next_command="list stop_conditions, or artifacts.expected_outputs, in the job file",
        )

    def look(store: SqlStore) -> tuple[bool, tuple[str, ...]]:
        told = starting.find_free(life, store, request)
        if told is not None and told.status.settled:
            return True, ()
        _refuse_what_cannot_be_met(life, store)
        return False, tuple(_unmet(life, store, lambda path: _is_there(life, path), lambda _: ""))

    found: tuple[str, ...] = ()
    request = door.memo_request(_MEMO, lambda: list(found), (), {}, None)
    was_told, found = life.ledger.read(look)
    return (request if was_told or found else None), found


def _expected(life: Life) -> bool:
    return bool(life.spec.get("stop_conditions") or life.section("artifacts").get("expected_outputs"))


def _unmet(life: Life, store: SqlStore, there: Callable[[str], bool], to_mend: Callable[[str], str]) -> list[str]:
    def absent(path: str) -> str | None:
        if there(path) or fork_outputs.stands_in(life, store, path):
            return None
        return f"{path} is not in the workspace{to_mend(path)}"

    conditions = life.spec.get("stop_conditions") or ()
    missing = [text for condition in conditions if (text := _problem(life, store, condition, absent))]
    outputs = life.section("artifacts").get("expected_outputs") or ()
    missing += [f"the expected output {text}" for path in outputs if (text := absent(path))]
    return missing + citations.missing(life, store)


def _problem(life: Life, store: SqlStore, condition: Any, absent: Callable[[str], str | None]) -> str | None:
    if isinstance(condition, str):
        met = any(item.condition == condition for item in store.budgets.met(life.run_id))
        return None if met else f"the stop condition {condition!r} was not satisfied"
    said = _fields(condition)
    if "artifact" in said:
        text = absent(str(said["artifact"]))
        return text and f"the artifact {text}"
    if "effect" in said:
        done, wanted = _counted(life, store, said)
        return None if done == wanted else f"{said['effect']} has {done} receipts, not {wanted}"
    return f"the stop condition {condition!r} is not one that can be checked"


def _fields(condition: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", condition) if isinstance(condition, dict) else {}


def _counted(life: Life, store: SqlStore, said: dict[str, Any]) -> tuple[int, int]:
    return store.calls.effects(life.run_id, str(said["effect"])), int(said.get("times", 1))


def _refuse_what_cannot_be_met(life: Life, store: SqlStore) -> None:
    for condition in life.spec.get("stop_conditions") or ():
        said = _fields(condition)
        if "effect" in said:
            done, wanted = _counted(life, store, said)
            if done > wanted:
                raise ConditionsUnmet(f"{said['effect']} has {done} receipts, not {wanted}, and none can be taken back")


def _is_there(life: Life, path: str) -> bool:
    file = inside(life.workspace, path)
    return file is not None and file.is_file()
