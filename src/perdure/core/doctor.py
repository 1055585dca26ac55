"""What is right and what is wrong with a machine and a ledger: facts in, findings out; nothing is looked up here."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

Version = tuple[int, int, int]
NETWORK_FILESYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph"})
IN_MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs"})
LITTLE_BYTES = 64 * 1024 * 1024
FEW_BYTES = 1024 * 1024 * 1024
HONEST_FSYNC_SECONDS = 0.000_02
SLOW_FSYNC_SECONDS = 0.05
FIRST_SANE_TIME, LAST_SANE_TIME = "2025-01-01T00:00:00.000000Z", "2100-01-01T00:00:00.000000Z"
OLDEST_PYTHON = (3, 11)
VARIABLES: Mapping[str, str] = {
    "PERDURE_HOME": "the state directory, where `--state-dir` does not say; else `./.perdure`",
    "PERDURE_STORE": "the ledger itself, `sqlite:///FILE`, where `--store` does not say",
    "PERDURE_POLICIES_PATH": "policy files that are laid over the shipped one, before those of a job, parted by `:`",
    "PERDURE_REDACTION": "`strict` (default) or `off`: whether what looks like a secret is kept out of the rows",
    "PERDURE_KEY_FILE": "the key of the ledger's secrets, where it is not to lie beside the ledger",
    "PERDURE_OTEL": "`1`: spans for OpenTelemetry, although the program has configured no provider; `0`: none",
    "PERDURE_TRACE": "`1`: a `trace.json` in the workspace of each run",
    "PERDURE_RUN": "set by Perdure for a child: the run that started it",
    "PERDURE_SENDER": "set by Perdure for a child: by which its process is known as a sender",
    "PERDURE_TEST_PROVIDER": "where the independent provider of `perdure.testing` listens",
}
"""What is read from the environment, and what it means; the crash knobs and the toolbox have pages of their own."""
FAMILIES = ("PERDURE_SMTP_", "PERDURE_IMAP_", "PERDURE_MAIL_", "PERDURE_NOTIFY_", "PERDURE_S3_", "PERDURE_TEST_CRASH_")
_KNOB = "PERDURE_TEST_CRASH_"


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Args:
        about: a stable word for programs.
        found: what is so.
        means: what follows from it.
        fix: what to type or to do; empty where nothing is wrong.
    """

    about: str
    level: Level
    found: str
    means: str = ""
    fix: str = ""


def ok(about: str, found: str) -> Finding:
    """Return that something is right."""
    return Finding(about, Level.OK, found)


def python(version: tuple[int, ...], missing_extras: Sequence[str]) -> Iterator[Finding]:
    """Look at the interpreter and at the optional parts that are not installed."""
    said = ".".join(map(str, version[:3]))
    if version[:2] < OLDEST_PYTHON:
        yield Finding(
            "python", Level.BAD, f"Python {said}", "perdure needs 3.11 or newer", "install Python 3.11 or newer"
        )
    else:
        yield ok("python", f"Python {said}")
    listed = ", ".join(missing_extras)
    yield ok("extras", f"not installed, and only needed for what they bring: {listed}" if listed else "all installed")


def sqlite(version: Version, affected: bool, has_checksums: bool, python_sqlite: str) -> Iterator[Finding]:
    """Look at the SQLite that writes the ledger; Python's own one is only named."""
    said = ".".join(map(str, version))
    if affected:
        yield Finding(
            "sqlite",
            Level.BAD,
            f"apsw brings SQLite {said}",
            "it can corrupt a database with a write-ahead log (the WAL-reset bug of 3.7.0 to 3.51.2); it is refused",
            "pip install -U apsw",
        )
    else:
        yield ok("sqlite", f"apsw brings SQLite {said}; Python's own {python_sqlite} is not used for the ledger")
    if has_checksums:
        yield ok("checksums", "each page of a ledger gets a checksum")
    else:
        yield Finding(
            "checksums",
            Level.WARN,
            "this build of apsw has no checksum VFS",
            "a flipped bit in the ledger's file is found only where it breaks the structure",
            "pip install --only-binary :all: -U apsw",
        )


def filesystem(kind: str, folder: str) -> Finding:
    """Look at what the ledger's folder lies on."""
    if kind in NETWORK_FILESYSTEMS:
        means = "SQLite's locks cannot be trusted on a network filesystem; it is refused"
        return Finding("filesystem", Level.BAD, f"{folder} lies on {kind}", means, _LOCAL_DISK)
    if kind in IN_MEMORY_FILESYSTEMS:
        means = "it stands in memory: the ledger is gone when the machine stops"
        return Finding("filesystem", Level.WARN, f"{folder} lies on {kind}", means, _LOCAL_DISK)
    if kind == "overlay":
        means = "it is a container's own layer: the ledger is gone with the container"
        return Finding(
            "filesystem", Level.WARN, f"{folder} lies on {kind}", means, "mount a volume, and: --state-dir DIR"
        )
    return ok("filesystem", f"{folder} lies on {kind}")


_LOCAL_DISK = "put the state directory on a local disk: --state-dir DIR"


def space(free_bytes: int, folder: str) -> Finding:
    """Look at the room that is left."""
    said = f"{free_bytes // (1024 * 1024)} MiB are free at {folder}"
    if free_bytes < LITTLE_BYTES:
        return Finding(
            "space", Level.BAD, said, "the next record may not find room; no tool is called then", "make room"
        )
    if free_bytes < FEW_BYTES:
        return Finding("space", Level.WARN, said, "a long run may fill it", "make room, or: --state-dir DIR")
    return ok("space", said)


def fsync(seconds: Sequence[float], kind: str) -> Finding:
    """Look at how long a sync takes; one that takes no time may not reach the disk."""
    if not seconds:
        means = "no run can be recorded: none is started, and none is gone on with"
        return Finding(
            "fsync", Level.BAD, "the folder takes no file", means, "let this user write there, or: --state-dir DIR"
        )
    median = sorted(seconds)[len(seconds) // 2]
    said = f"a sync takes {median * 1000:.2f} ms"
    if median < HONEST_FSYNC_SECONDS and kind not in IN_MEMORY_FILESYSTEMS:
        means = "suspiciously fast: the disk, or what pretends to be one, may answer before the data is safe"
        return Finding("fsync", Level.WARN, said, means, "see whether its write cache survives a loss of power")
    if median > SLOW_FSYNC_SECONDS:
        return Finding("fsync", Level.WARN, said, "each call waits for two of them", _LOCAL_DISK)
    return ok("fsync", said)


def clock(now: str, newest: str | None) -> Iterator[Finding]:
    """Look at the wall clock against a sane year, and against the newest time in the ledger."""
    if not FIRST_SANE_TIME <= now < LAST_SANE_TIME:
        yield Finding("clock", Level.BAD, f"it is {now}", "deadlines and keys go by it", "set the clock")
    elif newest is not None and now < newest:
        means = "keys and approvals expire by the newer of the two; deadlines by the clock"
        said = f"it is {now}, and the ledger holds {newest}"
        yield Finding("clock", Level.WARN, said, means, "set the clock, unless it was set right just now")
    else:
        yield ok("clock", f"it is {now}")


def exposed(path: str, problem: str, command: str, *, is_folder: bool, to_others: bool) -> Finding:
    """Tell of a path that others than its owner may enter, or of another mode, as ``store.modes`` found it."""
    means = "others on this machine may read or change what tools got and returned"
    if not to_others:
        means = "no file of a ledger is a program: something else has changed its mode"
    return Finding("folder_mode" if is_folder else "file_mode", Level.WARN, f"{path}: {problem}", means, command)


def variables(environ: Mapping[str, str], knobs: Sequence[str]) -> Iterator[Finding]:
    """Look at the variables that begin as ours do: misspelled ones, and test knobs that are set."""
    known = (*VARIABLES, *knobs)
    ours = sorted(name for name in environ if name.startswith("PERDURE_"))
    strange = [name for name in ours if name not in known and not _of_a_family(name)]
    for name in strange:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield Finding("variables", Level.WARN, f"{name} is set", f"nothing reads it{hint}", f"unset {name}")
    for name in ours:
        if name.startswith(_KNOB):
            means = "a test knob: each run started from here is killed where it says"
            yield Finding("knobs", Level.WARN, f"{name}={environ[name]}", means, f"unset {name}")
    if not strange:
        yield ok("variables", f"{len(ours)} set, each known" if ours else "none set")


def _of_a_family(name: str) -> bool:
    return name.startswith(FAMILIES)
