"""A disk that remembers, as the default VFS of SQLite in a process of its own: what would be left after a loss of power?

The process runs small jobs and notes, in one order, each write, truncation, sync and deletion of the ledger's files, each
effect at the moment it happens, and each promise at the moment it is made. `Platter` builds from such a log the files that
a loss of power at any place in it could leave.

`python -m tests.crash.power_loss_vfs FOLDER LOG [PLANT]` records into LOG.
"""

import asyncio
import os
import pickle
import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from perdure import ToolFailed, tool

BASE = "unix"
TORN_BYTES = 512
SYNCED_WITH_FOLDER = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
LEDGER = "runtime_state.db"
SECRET = f"the key is sk-{'q7' * 20}"
LARGE = "a report of some length " * 1200
Entry = tuple[Any, ...]
LOG: list[Entry] = []
"""("create" "write" "truncate" "sync" "delete", file, …), ("link", file, name), ("folder",), ("effect", what, arguments), ("told", what, value),
("ended", run id). What is told is a receipt whose commit was waited for."""


# --- recording -------------------------------------------------------------------------------------------------------


class RememberedFile(apsw.VFSFile):
    """Does what the operating system's file does, and notes it."""

    def __init__(self, path: str, flags: list[int]) -> None:
        self._name = os.path.basename(path)
        self._folder_too = bool(flags[0] & SYNCED_WITH_FOLDER)
        if not os.path.exists(path):
            LOG.append(("create", self._name))
        super().__init__(BASE, path, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        LOG.append(("write", self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        LOG.append(("truncate", self._name, newsize))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        LOG.append(("sync", self._name))
        if self._folder_too:  # SQLite's own file does this: a new journal's name must be durable with its content
            LOG.append(("folder",))
            self._folder_too = False


class RememberingDisk(apsw.VFS):
    """The default VFS of this process."""

    def __init__(self) -> None:
        super().__init__("remembering", BASE, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        if name is None or not flags[0] & (SYNCED_WITH_FOLDER | apsw.SQLITE_OPEN_MAIN_DB):
            return apsw.VFSFile(BASE, name, flags)
        return RememberedFile(name.filename() if isinstance(name, apsw.URIFilename) else name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        LOG.append(("delete", os.path.basename(filename)))
        if syncdir:
            LOG.append(("folder",))


def note_what_is_done_past_sqlite() -> None:
    """Note the files that Python makes, links and removes beside the ledger, and what it syncs: files and folders.

    What is written to such a file is noted at its sync: before it, the file is taken to be empty after a loss.
    """
    make, fsync, link, unlink = os.open, os.fsync, os.link, os.unlink

    def opened(path: Any, flags: int, *more: Any, **how: Any) -> int:
        made = bool(flags & os.O_CREAT) and not os.path.exists(path)
        handle = make(path, flags, *more, **how)
        if made:
            LOG.append(("create", os.path.basename(path)))
        return handle

    def synced(handle: int) -> None:
        fsync(handle)
        path = os.readlink(f"/proc/self/fd/{handle}")
        name = os.path.basename(path)
        if os.path.isdir(path):
            LOG.append(("folder",))
            return
        LOG.append(("truncate", name, os.fstat(handle).st_size))
        if not name.startswith(LEDGER):  # what stands in the ledger's own files was noted as SQLite wrote it
            LOG.append(("write", name, 0, Path(path).read_bytes()))
        LOG.append(("sync", name))

    def linked(source: Any, target: Any, **how: Any) -> None:
        link(source, target, **how)
        LOG.append(("link", os.path.basename(source), os.path.basename(target)))

    def unlinked(path: Any, **how: Any) -> None:
        unlink(path, **how)
        LOG.append(("delete", os.path.basename(path)))

    os.open, os.fsync, os.link, os.unlink = opened, synced, linked, unlinked  # type: ignore[assignment]


# --- rebuilding ------------------------------------------------------------------------------------------------------


@dataclass
class File:
    """One file: what is on the platter, and what was written since its last sync, in order."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Entry] = field(default_factory=list)


def _put(content: bytearray, offset: int, data: bytes) -> None:
    content.extend(bytes(max(0, offset + len(data) - len(content))))
    content[offset : offset + len(data)] = data


def _cut(content: bytearray, size: int) -> None:
    content.extend(bytes(max(0, size - len(content))))
    del content[size:]


def _do(content: bytearray, entry: Entry) -> None:
    if entry[0] == "write":
        _put(content, entry[2], entry[3])
    else:
        _cut(content, entry[2])


def _sectors(entry: Entry) -> Iterable[Entry]:
    """Split a write where a loss of power could tear it."""
    if entry[0] != "write":
        yield entry
        return
    _, name, offset, data = entry
    start = offset
    while start < offset + len(data):
        end = min((start // TORN_BYTES + 1) * TORN_BYTES, offset + len(data))
        yield ("write", name, start, data[start - offset : end - offset])
        start = end


class Platter:
    """What is durable after a part of a log, and what a loss of power there would leave."""

    def __init__(self) -> None:
        self.version = 0
        """Counts what became durable: two cuts of one version leave the same files when all that is unsynced is lost."""
        self._names: dict[str, File] = {}
        self._durable_names: dict[str, File] = {}

    def take(self, entry: Entry) -> None:
        """Go on by one entry."""
        kind = entry[0]
        if kind == "create":
            self._names[entry[1]] = File()
        elif kind == "delete":
            self._names.pop(entry[1], None)
        elif kind == "link":
            self._names[entry[2]] = self._names[entry[1]]
        elif kind in ("write", "truncate"):
            self._names[entry[1]].pending.append(entry)
        elif kind == "sync":
            file = self._names[entry[1]]
            for pending in file.pending:
                _do(file.durable, pending)
            file.pending.clear()
            self.version += 1
        elif kind == "folder":
            self._durable_names = dict(self._names)
            self.version += 1

    def leave(self, folder: Path, kept: float = 0.0, chance: random.Random | None = None) -> None:
        """Write the files that are left, with each unsynced sector and each unsynced name kept with a probability."""
        chance = chance or random.Random(0)
        for name in sorted({*self._names, *self._durable_names}):
            file = (self._names if chance.random() < kept else self._durable_names).get(name)
            if file is None:
                continue
            content = bytearray(file.durable)
            for pending in file.pending:
                for part in _sectors(pending):
                    if chance.random() < kept:
                        _do(content, part)
            solid = len(content.rstrip(b"\0"))
            with (folder / name).open("wb") as made:
                made.write(content[:solid])
                made.truncate(len(content))


# --- the jobs --------------------------------------------------------------------------------------------------------


class Doorstep:
    """Where effects happen; they are noted in the log with everything that was promised before them."""

    def __init__(self) -> None:
        self.strict = False
        self._returned: list[Entry] = []

    def happens(self, what: str, text: str) -> dict[str, str]:
        """Let an effect happen: whatever this program was handed before is durable now, for it stands before the intent."""
        LOG.append(("effect", what, {"what": what, "text": text}))
        if not self.strict:
            self.tell()
        return {"done": what, "as": text}

    def returned(self, what: str, value: Any) -> None:
        """Note that the program was handed a receipt."""
        self._returned.append(("told", what, value))
        if self.strict:
            self.tell()

    def tell(self) -> None:
        """Note that what was handed to the program is promised."""
        LOG.extend(self._returned)
        self._returned.clear()


DOORSTEP = Doorstep()
_REFUSED: set[str] = set()


@tool(side_effect_class="external", scope=["what"])
def send(what: str, text: str) -> dict[str, str]:
    """An effect that nobody can be asked about."""
    return DOORSTEP.happens(what, text)


@tool(side_effect_class="external", scope=["what"])
def send_at_last(what: str, text: str) -> dict[str, str]:
    """Refused once, for certain."""
    if what not in _REFUSED:
        _REFUSED.add(what)
        raise ToolFailed("busy")
    return DOORSTEP.happens(what, text)


def in_a_row(run: Any) -> list[str]:
    """Four effects, one after the other, with a memo before; the text of one has a secret in it, which is stored sealed."""
    text = run.memo("draft", str, LARGE)
    done = []
    wanted = {"one": (send, "x"), "two": (send, text), "three": (send_at_last, SECRET), "four": (send, "")}
    for what, (sender, words) in wanted.items():
        value = sender(what, words)
        DOORSTEP.returned(what, value)
        done.append(value["done"])
    return done


async def side_by_side(run: Any) -> list[str]:
    """Four effects at once, whose rows share commits."""

    async def one(what: str) -> str:
        value = await run.call(send, what, "z")
        DOORSTEP.returned(what, value)
        return str(value["done"])

    return list(await asyncio.gather(*(one(what) for what in ("five", "six", "seven", "eight"))))


def record(folder: Path) -> None:
    """Run the jobs in one ledger, closed between them so that its WAL begins anew in the middle."""
    import perdure

    disk = RememberingDisk()
    note_what_is_done_past_sqlite()
    for main, strict in ((in_a_row, False), (side_by_side, True)):
        DOORSTEP.strict = strict
        tuning = perdure.Tuning(first_retry_seconds=0.001, strict_receipts=strict)
        with perdure.open(state_dir=folder, tuning=tuning) as engine:
            outcome = engine.run(main, run_id=main.__name__)
            assert outcome.status == "succeeded", outcome
            DOORSTEP.tell()
            LOG.append(("ended", main.__name__))
    disk.unregister()


def plant(name: str) -> None:
    """Break one rule in this process."""
    from tests.crash import planting

    _REFUSED.add("three")  # a tool that is called inside the commit cannot say no
    planting.plant(name)


if __name__ == "__main__":
    # Tools and log must be those of the importable module, not a second copy under the name __main__.
    from tests.crash import power_loss_vfs as this

    for planted_bug in sys.argv[3:]:
        this.plant(planted_bug)
    this.record(Path(sys.argv[1]))
    Path(sys.argv[2]).write_bytes(pickle.dumps(this.LOG))
