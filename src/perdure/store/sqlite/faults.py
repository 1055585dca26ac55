"""What SQLite complains of, as an error of ours: what happened, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apsw

from perdure.model.errors import ConstraintViolated, LedgerDamaged, StorageFault, StoreError
from perdure.store.sqlite.checksums import is_damage
from perdure.store.sqlite.lock_holder import is_stopped, lock_holder


def fault_of(path: str, problem: apsw.Error) -> StoreError:
    """Return the error of a statement that failed on the ledger at ``path``."""
    if isinstance(problem, apsw.ConstraintError):
        return ConstraintViolated(f"the ledger refused a row: {problem}")
    if is_damage(problem):
        return damaged(path, problem)
    if isinstance(problem, apsw.BusyError):
        return _locked(path, problem)
    if isinstance(problem, apsw.ReadOnlyError):
        return StorageFault(
            f"the ledger {path} may not be written: {problem}",
            next_command=f"let this user write to it and in {Path(path).parent}, and type the same command again",
        )
    return StorageFault(_said(problem))


def storable(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters in which a lone surrogate, as in the name of a file in an error, is written as an escape."""
    return {
        name: value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else value
        for name, value in parameters.items()
    }


def damaged(path: str, what: object) -> LedgerDamaged:
    """Return the error of a ledger whose files do not hold what was written to them."""
    return LedgerDamaged(f"the ledger {path} does not hold what was written to it: {what}")


def _said(problem: apsw.Error) -> str:
    return f"the ledger could not be read or written: {type(problem).__name__}: {problem}"


def _locked(path: str, problem: apsw.Error) -> StorageFault:
    text = _said(problem)
    holder = lock_holder(path)
    if holder is None:
        return StorageFault(text)
    if not is_stopped(holder):
        return StorageFault(f"{text}; process {holder} is writing to it")
    return StorageFault(
        f"{text}; process {holder} holds its write lock and is stopped",
        next_command=f"kill -CONT {holder}   # wakes it; or kill -KILL {holder} ends it; then: perdure resume @last",
    )
