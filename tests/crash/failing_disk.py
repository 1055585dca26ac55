"""A disk that fails, as the default VFS of SQLite in a process of its own, and a job that says where it is.

Where the environment holds a plan for a fault, importing this module installs the disk that fails by it.
"""

import asyncio
import atexit
import json
import os
import shutil
import sys
from functools import partial
from typing import Any

import apsw

from perdure import tool

BASE = "unix"
FAULT_VARIABLE = "CRASH_LOOP_STORAGE_FAULT"


class Fault:
    """What goes wrong, and from when on; the plan is `{"what": …, "at": place in the job, or "open", "number": n-th}`.

    `full`: no write succeeds from then on, or only so many fail as `last` says. `io`: one operation fails. `sync`: one
    sync fails. `read_only`: the files open for reading only. `locked`: the parent is let in to lock the ledger.
    `replaced`: a copy takes the place of the file. `removed`: nothing does. `patience` is how many seconds a receipt that
    cannot be stored is kept in memory, and `busy` how many milliseconds a lock is waited for.
    """

    def __init__(self, plan: dict[str, Any]) -> None:
        self.what = str(plan.get("what", "none"))
        self._at, self._number = plan.get("at"), int(plan.get("number", 1))
        self._armed = self._at == "open"
        self._last = int(plan.get("last", sys.maxsize))
        self.passed = self.failed = 0

    def reach(self, place: str, ledger: str = "") -> None:
        """Let the job say where it is."""
        if place != self._at:
            return
        self._armed = True
        if self.what == "locked":
            print("ready", flush=True)
            sys.stdin.readline()
        elif self.what == "replaced":
            shutil.copy(ledger, ledger + ".copy")
            os.replace(ledger + ".copy", ledger)
        elif self.what == "removed":
            os.rename(ledger, ledger + ".gone")

    def pass_by(self, operation: str) -> None:
        """Fail, if this operation is to fail."""
        if not self._armed or operation not in _AFFECTED.get(self.what, ()):
            return
        self.passed += 1
        many = self._last if self.what == "full" else 1
        if self._number <= self.passed < self._number + many:
            self.failed += 1
            raise _error(self.what, operation)


_AFFECTED = {"full": ("write",), "io": ("write", "truncate", "sync"), "sync": ("sync",)}


def _error(what: str, operation: str) -> apsw.Error:
    if what == "full":
        return apsw.FullError("no space left")
    error = apsw.IOError("the disk does not answer")
    error.extendedresult = apsw.SQLITE_IOERR_FSYNC if operation == "sync" else apsw.SQLITE_IOERR_WRITE
    return error


class FailingFile(apsw.VFSFile):
    """Fails where the plan says so."""

    def xWrite(self, data: bytes, offset: int) -> None:
        FAULT.pass_by("write")
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        FAULT.pass_by("truncate")
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        FAULT.pass_by("sync")
        super().xSync(flags)


class FailingDisk(apsw.VFS):
    """The default VFS of this process."""

    def __init__(self) -> None:
        super().__init__("failing", BASE, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        if FAULT.what == "read_only":
            flags[0] = flags[0] & ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) | apsw.SQLITE_OPEN_READONLY
        return FailingFile(BASE, name, flags)


PLAN: dict[str, Any] = json.loads(os.environ.get(FAULT_VARIABLE, "{}"))
FAULT = Fault(PLAN)
if FAULT.what != "none":
    FAILING_DISK = FailingDisk()
    atexit.register(lambda: print(f"FAULT {FAULT.passed} {FAULT.failed}", file=sys.stderr))
    if "busy" in PLAN:
        from perdure.store.sqlite import connection as _connection

        _connection.BUSY_TIMEOUT_MILLISECONDS = PLAN["busy"]
    if "patience" in PLAN:
        from perdure import engine as _engine

        _engine.Tuning = partial(_engine.Tuning, late_receipt_seconds=PLAN["patience"])  # type: ignore[misc, assignment]


def _mail(outside: str, what: str) -> dict[str, str]:
    with open(outside, "a") as letterbox:
        letterbox.write(what + "\n")
    FAULT.reach(what, os.path.join(os.path.dirname(outside), "runtime_state.db"))
    return {"sent": what}


mail = tool(name="mail", side_effect_class="external", scope=["what"])(_mail)


def two_mails(run: Any) -> list[str]:
    """Two effects of which nobody knows but the letterbox."""
    outside = run.inputs["outside"]
    FAULT.reach("start", os.path.join(os.path.dirname(outside), "runtime_state.db"))
    return [mail(outside, what)["sent"] for what in ("first", "second")]


async def two_mails_at_once(run: Any) -> list[str]:
    """The same from tasks side by side."""
    outside = run.inputs["outside"]
    FAULT.reach("start")
    sent = await asyncio.gather(*(run.call(mail, outside, what) for what in ("first", "second")))
    return [item["sent"] for item in sent]
