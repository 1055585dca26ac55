"""The yardstick: SQLite through apsw and nothing else, two durable commits a call (WAL, synchronous=FULL).

One INSERT for the intent before the call, one for the result after it. Every engine that keeps the same
promise pays at least this, unless it lets commits share an fsync; `fused`, `warm` and `grouped` show how much
that gains.
"""

import asyncio
import queue
import threading
from pathlib import Path

import apsw

from benchmarks.measure import Run, Stopwatch
from benchmarks.payload import RESULT, args_for, dumps

SCHEMA = "CREATE TABLE event(id INTEGER PRIMARY KEY, run INTEGER, seq INTEGER, kind INTEGER, body TEXT)"
INSERT = "INSERT INTO event(run, seq, kind, body) VALUES (?, ?, ?, ?)"
INTENT, OUTCOME = 0, 1
WARM_BYTES = 4_000_000


def connect(path: Path) -> apsw.Connection:
    """Open a new ledger; the pragmas are read back, because an ignored one would make the yardstick a lie."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(60_000)
    mode = connection.execute("PRAGMA journal_mode=WAL").get
    connection.execute("PRAGMA synchronous=FULL")
    level = connection.execute("PRAGMA synchronous").get
    if (mode, level) != ("wal", 2):
        raise RuntimeError(f"SQLite gave journal_mode={mode}, synchronous={level}")
    connection.execute(SCHEMA)
    return connection


def stretch(connection: apsw.Connection) -> None:
    """Let the WAL file grow once, so that later commits only overwrite it: they sync data, no file size."""
    connection.execute("CREATE TABLE pad(body BLOB)")
    connection.execute("INSERT INTO pad VALUES (zeroblob(?))", (WARM_BYTES,))
    connection.execute("DELETE FROM pad")
    connection.execute("PRAGMA wal_checkpoint(RESTART)").get  # noqa: B018 - reading the row runs the statement


def two_commits(folder: Path, calls: int, *, warm: bool = False) -> Run:
    """Make `calls` calls, each with its intent and its result in a commit of its own."""
    connection = connect(folder / "raw.db")
    if warm:
        stretch(connection)
    execute, watch = connection.execute, Stopwatch()
    for number in range(calls):
        execute(INSERT, (1, number, INTENT, dumps(args_for(number))))
        watch.enter()
        execute(INSERT, (1, number, OUTCOME, dumps(RESULT)))
    run = watch.stop(calls)
    connection.close()
    return run


def fused(folder: Path, calls: int) -> Run:
    """Make `calls` calls on a stretched WAL, a result sharing the commit of the next intent."""
    connection = connect(folder / "raw.db")
    stretch(connection)
    execute, watch = connection.execute, Stopwatch()
    for number in range(calls):
        execute("BEGIN IMMEDIATE")
        if number:
            execute(INSERT, (1, number - 1, OUTCOME, dumps(RESULT)))
        execute(INSERT, (1, number, INTENT, dumps(args_for(number))))
        execute("COMMIT")
        watch.enter()
    execute(INSERT, (1, calls - 1, OUTCOME, dumps(RESULT)))
    run = watch.stop(calls)
    connection.close()
    return run


_Row = tuple[int, int, int, str]
_Waiting = tuple[_Row, asyncio.Future[None]]


class _Writer:
    """One thread that commits all that waits at once and then wakes everybody whose row is in it."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._loop = asyncio.get_running_loop()
        self._execute = connection.execute
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def write(self, row: _Row) -> asyncio.Future[None]:
        future = self._loop.create_future()
        self._queue.put((row, future))
        return future

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            while not self._queue.empty() and (more := self._queue.get()) is not None:
                batch.append(more)
            self._execute("BEGIN IMMEDIATE")
            for row, _ in batch:
                self._execute(INSERT, row)
            self._execute("COMMIT")
            self._loop.call_soon_threadsafe(_wake, batch)


def _wake(batch: list[_Waiting]) -> None:
    for _, future in batch:
        future.set_result(None)


def grouped(folder: Path, runs: int, calls: int) -> Run:
    """Make `calls` calls in each of `runs` concurrent runs, with one commit for all that wait."""

    async def everything() -> Run:
        connection = connect(folder / "raw.db")
        writer = _Writer(connection)
        watch = Stopwatch()

        async def one(run: int) -> None:
            for number in range(calls):
                await writer.write((run, number, INTENT, dumps(args_for(number))))
                watch.enter()
                await writer.write((run, number, OUTCOME, dumps(RESULT)))

        await asyncio.gather(*(one(run) for run in range(runs)))
        result = watch.stop(runs * calls)
        writer.close()
        connection.close()
        return result

    return asyncio.run(everything())
