"""Models at work: a loop of our own (ML), a harness with a transcript (HX), a client behind a relay (MCP).

A model knows its history and nothing else. What our side knows of that history is the reader's `seen` (R0).
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.model.agents import Callers
from tests.model.machine import Fault, Steps, Task
from tests.model.readers import think
from tests.model.rules import OVER, TURN, Conflict, Reader
from tests.model.words import Ask, History, Loop, Program, Receipt, Row, Said, World


def known(history: History) -> tuple[set[int], set[int]]:
    """The rows whose results, and the rows whose mention in a challenge, stand in a history."""
    seen = {said.receipt.row for said in history if said.receipt is not None}
    return seen, {receipt.row for said in history for receipt in said.listed}


def receipt(rows: list[Row], number: int) -> Receipt:
    """What can be read of a row."""
    return Receipt(number, rows[number].tool.name, rows[number].scope, rows[number].intent)


class Life(Callers):
    """A whole life: a Python program, and the models in it."""

    def __init__(self, world: World, program: Program, broken: frozenset[str], fault: Fault | None) -> None:
        super().__init__(world, program, broken, fault)
        self.met_turns: set[int] = set()
        self.foreign: Loop | None = None

    def loop(self, task: Task, parent: int | None, step: Loop) -> Steps:
        """From the first turn of this life to the one that asks for nothing."""
        outer = task.reader
        try:
            if step.kind == "ML":
                yield from self.own_loop(task, parent, step)
            else:
                yield from self.foreign_loop(task, parent, step)
        finally:
            task.reader = outer

    def begin(self, task: Task, step: Loop, history: History, old: Reader | None = None) -> Reader:
        """A new context: it has seen what stands in its history."""
        seen, listed = known(history)
        reader = self.ledger.open(Reader(step.kind, seen, listed), old)
        reader.agent, reader.run = task.reader.agent, task.reader.run
        return reader

    # a loop of our own
    def own_loop(self, task: Task, parent: int | None, step: Loop) -> Steps:
        mark, history = self.restored(step, task.branch)
        run = mark if step.forgets == "fork" else task.reader.run
        task.reader = self.begin(task, step, history)
        task.reader.run = run
        compacted = False
        while True:
            if step.compacts and not compacted and len(history) >= step.compacts:
                compacted, mark, history = True, mark + 1, ()
                if "context not renewed at compaction" not in self.broken:
                    task.reader = self.begin(task, step, history, task.reader)
            number = yield from self.turn(task, parent, step, mark, history)
            if not self.ledger.rows[number].asks:
                return
            history += yield from self.answers(task, parent, number)
            task.reader.read()

    def restored(self, step: Loop, branch: tuple[int, ...]) -> tuple[int, History]:
        """What a new life begins with: nothing, and it meets its turns again; or an older, shorter history."""
        if step.forgets is None:
            return 0, ()
        if step.forgets == "fork":
            return int(self.world.life > 1), ()
        turns = [row for row in self.ledger.rows if row.tool == TURN and row.branch == branch]
        old = turns[-1].history if turns else ()
        kept: dict[str, History] = {"all": (), "turn": old, "first": old[1:]}
        return self.world.life, kept[step.forgets]

    def turn(self, task: Task, parent: int | None, step: Loop, mark: int, history: History) -> Any:
        """Ask the model once; its answer and the rows of all that it asks for are one transaction."""
        ledger = self.ledger
        wanted = Ask(TURN, f"{mark} {task.branch} {' '.join(goal.args for goal in step.goals)}")
        equal = [
            n
            for n, row in enumerate(ledger.rows)
            if row.tool == TURN and (row.args, row.history) == (wanted.args, history)
        ]
        free = [n for n in equal if n not in self.met_turns]
        number = free[0] if free else ledger.mint(wanted, task.branch, parent, task.reader)
        self.met_turns.add(number)
        if ledger.rows[number].status != "succeeded":
            ledger.change(number, status="running", history=history)
            yield None  # the model thinks
            asks = think(step, history, self.world.life)
            ledger.change(number, status="succeeded", asks=asks)
            if "call rows not in the turn's transaction" in self.broken:
                yield None
            within = number if "a turn encloses its calls" in self.broken else parent
            calls = [self.wish(task, within, ask, index) for index, ask in enumerate(asks)]
            ledger.change(number, calls=tuple(calls))
        if "a turn encloses its calls" in self.broken:
            task.reader.seen.update(ledger.rows[number].calls)
        return number

    def wish(self, task: Task, parent: int | None, ask: Ask, index: int) -> int:
        """The row of one call that a turn asks for; it is held from here on."""
        ledger, branch = self.ledger, (*task.branch, index)
        try:
            number = ledger.find(ask, branch, parent, task.reader)
        except Conflict:
            number = ledger.mint(ask._replace(key=None), branch, parent, task.reader)
            ledger.change(number, status="failed")
        ledger.held[number].add(task)
        return number

    def answers(self, task: Task, parent: int | None, number: int) -> Any:
        """All calls of a turn, side by side; an exact handle is the turn and the index (F2)."""
        ledger, turn = self.ledger, self.ledger.rows[number]
        told: dict[int, Said] = {i: Said(ask, "lost") for i, ask in enumerate(turn.asks)}
        children = []
        for index, row in enumerate(turn.calls):
            work = partial(self.served, row=row, ask=turn.asks[index], tell=partial(told.__setitem__, index))
            child = self.spawn((*task.branch, index), partial(work, minted=row > number), task.reader)
            ledger.meet(row, child)
            ledger.held[row].discard(task)
            children.append(child)
        yield lambda: all(child.over for child in children)
        return tuple(told[index] for index in sorted(told))

    def served(self, task: Task, row: int, ask: Ask, tell: Callable[[Said], None], minted: bool) -> Steps:
        """One call of a model, to its answer."""
        yield None
        delivered = False
        try:
            while self.ledger.rows[row].status not in OVER:
                yield from self.forward(task, row)
            delivered = True
        finally:
            self.ledger.release(row, task, delivered)
        tell(self.said(ask, row, minted))

    def said(self, ask: Ask, number: int, minted: bool) -> Said:
        """What the model reads: a result, maybe with "nothing was done now" at its head; or an error, or a list."""
        rows = self.ledger.rows
        row = rows[number]
        if row.status == "challenged":
            return Said(ask, "challenged", listed=tuple(receipt(rows, n) for n in row.shown))
        if row.status in ("failed", "abandoned"):
            return Said(ask, "failed", receipt(rows, number))
        if row.status == "cancelled" and row.same_as is None:
            return Said(ask)  # withdrawn when the run ended; nothing was done
        found = number if row.same_as is None else row.same_as
        headed = not minted or row.same_as is not None
        return Said(ask, "done", receipt(rows, found), headed and "adoption without its heading" not in self.broken)

    # loops that are not ours
    def foreign_loop(self, task: Task, parent: int | None, step: Loop) -> Steps:
        """A harness's session, or a client's connections: its memory is a transcript that we do not write."""
        self.foreign = step
        task.reader = self.connected(task, step)
        if step.kind == "MCP":
            self.patience.append(task)  # its stream may break, once
        if step.resends:
            lost = [n for n, said in enumerate(self.world.transcript) if said.outcome == "none"]
            yield from self.requests(task, parent, step, lost)
        while True:
            asks = think(step, self.world.transcript, self.world.life)
            if not asks:
                break
            ids = range(len(self.world.transcript), len(self.world.transcript) + len(asks))
            self.write(*self.world.transcript, *map(Said, asks))
            yield None
            yield from self.requests(task, parent, step, list(ids))
            task.reader.read()
        self.patience = [waiting for waiting in self.patience if waiting is not task]

    def write(self, *transcript: Said) -> None:
        self.world = self.world._replace(transcript=transcript)

    def connected(self, task: Task, step: Loop, old: Reader | None = None) -> Reader:
        """A new session, or connection, and what it has seen."""
        told = {n for n, row in enumerate(self.ledger.rows) if row.delivered}
        if step.kind == "MCP":
            reader = self.begin(task, step, (), old)
            reader.forgotten = frozenset(told)
            if "a new connection forgets all" in self.broken:
                reader.forgotten = frozenset(range(len(self.ledger.rows)))
            return reader
        reader = self.begin(task, step, self.world.transcript if self.world.readable else ())
        if "a session has seen what we delivered" in self.broken:
            reader.seen = told
        if "a session has seen what stood in our checkpoint" in self.broken:
            reader.seen = told - {max(told, default=None)}
        if "a session has seen nothing" in self.broken:
            reader.seen, reader.listed = set(), set()
        return reader

    def requests(self, task: Task, parent: int | None, step: Loop, ids: list[int]) -> Steps:
        """Its calls, side by side; if its stream breaks it connects anew, and what had no reply is free again."""
        children = []
        for number in ids:
            work = partial(self.request, parent=parent, step=step, number=number)
            children.append(self.spawn((*task.branch, number), work, task.reader))
        yield lambda: all(child.over for child in children) or task.cancelled
        if not task.cancelled:
            return
        task.cancelled = False
        for child in children:
            child.cancelled = True
            for holders in self.ledger.held.values():
                holders.discard(child)
        task.reader = self.connected(task, step, task.reader)

    def request(self, task: Task, parent: int | None, step: Loop, number: int) -> Steps:
        """One call under the caller's own id, its reply, and its place in the transcript."""
        ledger, ask = self.ledger, self.world.transcript[number].ask
        handle = (f"session {0 if step.resends else self.world.life}", number)
        minted = len(ledger.rows)
        same = any(row.handle == handle for row in ledger.rows)
        try:
            row = ledger.find(ask, task.branch, parent, task.reader, handle)
        except Conflict:
            self.reply(number, Said(ask, "failed"))
            return
        ledger.meet(row, task)
        yield None
        heard = False
        try:
            while ledger.rows[row].status not in OVER:
                yield from self.forward(task, row)
            heard = not task.cancelled
        finally:
            ledger.release(row, task, heard)
        if not heard:
            return
        said = self.said(ask, row, same or row >= minted)
        if step.transcript != "forgetful":
            self.reply(number, said)
            yield None
        ledger.change(row, delivered=True)
        yield None
        self.reply(number, said)

    def reply(self, number: int, said: Said) -> None:
        """The caller writes down what it was told."""
        transcript = self.world.transcript
        self.write(*transcript[:number], said, *transcript[number + 1 :])

    def transcripts(self) -> Iterator[dict[str, Any]]:
        """What a crash may leave of a memory that is not ours."""
        yield {}
        step, transcript = self.foreign, self.world.transcript
        if step is None or not transcript:
            return
        if step.transcript == "lossy" and transcript[-1].outcome != "none":
            yield {"transcript": (*transcript[:-1], Said(transcript[-1].ask))}
        if step.transcript == "gone":
            yield {"transcript": ()}
        if step.transcript == "unreadable":
            yield {"readable": False}
