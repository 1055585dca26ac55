"""A Python agent: its steps, and how each of its calls finds its row, waits for it and hears of its end."""

from abc import abstractmethod
from functools import partial

from tests.model.machine import CallFailed, Machine, Steps, Task, TimedOut
from tests.model.rules import AGENT, MEMO, OVER, Conflict, Reader
from tests.model.words import Agent, Ask, Call, Fail, Gather, Loop, Memo, Only, Step, Timeout, Try


class Callers(Machine):
    """What a Python program does in one life."""

    @abstractmethod
    def loop(self, task: Task, parent: int | None, step: Loop) -> Steps:
        """A model at work."""

    def main(self, top: Task) -> Steps:
        begin = self.world.begin if self.program.session else 0
        for index, step in enumerate(self.program.steps):
            if index < begin:
                continue
            yield from self.body(top, None, (step,))
            if self.program.session or "base = checkpoint" in self.broken:
                self.world = self.world._replace(begin=index + 1, base=frozenset(self.reader.seen))
                yield None

    def body(self, task: Task, parent: int | None, steps: tuple[Step, ...]) -> Steps:
        """One step after another, in one branch."""
        for step in steps:
            match step:
                case Call():
                    yield from self.call(task, parent, step)
                case Memo() | Agent():
                    yield from self.memo(task, parent, step)
                case Loop():
                    yield from self.loop(task, parent, step)
                case Gather():
                    yield from self.gather(task, parent, step)
                case Try() | Timeout():
                    yield from self.attempt(task, parent, step)
                case Only(lives, inner):
                    if self.world.life in lives:
                        yield from self.body(task, parent, inner)
                case Fail():
                    raise CallFailed(None)

    def gather(self, task: Task, parent: int | None, step: Gather) -> Steps:
        children = []
        for branch in step.branches:
            work = partial(self.body, parent=parent, steps=branch)
            children.append(self.spawn((*task.branch, task.children), work, task.reader))
            task.children += 1
        yield lambda: all(child.over for child in children)
        for child in children:
            if child.error is not None:
                raise child.error

    def attempt(self, task: Task, parent: int | None, step: Try | Timeout) -> Steps:
        """A body and what is done instead of it."""
        expected = CallFailed if isinstance(step, Try) else TimedOut
        if isinstance(step, Timeout):
            self.patience.append(task)
        try:
            if isinstance(step, Timeout):
                yield None
            yield from self.body(task, parent, step.body)
        except expected:
            pass
        else:
            return
        finally:
            if isinstance(step, Timeout):
                self.patience = [waiting for waiting in self.patience if waiting is not task]
                task.cancelled = False
        yield from self.body(task, parent, step.fallback)

    def call(self, task: Task, parent: int | None, step: Call) -> Steps:
        """Find the row, bring it to its end, hand its receipt over."""
        if task.cancelled:
            raise TimedOut
        args = self.worded(step)
        cited = self.labels.get(step.cites) if step.cites else None
        ask = Ask(step.tool, args, step.scope, step.args, step.key, cited, step.manner)
        try:
            number = self.ledger.find(ask, task.branch, parent, task.reader)
        except Conflict:
            raise CallFailed(None) from None
        self.ledger.meet(number, task)
        self.retry_failed(number)
        yield None
        delivered = False
        try:
            while self.ledger.rows[number].status not in OVER:
                yield from self.forward(task, number)
            delivered = True
        finally:
            self.ledger.release(number, task, delivered)
        if step.label:
            self.labels[step.label] = number
        status = self.ledger.rows[number].status
        if status in ("failed", "abandoned") or (status == "challenged" and step.manner != "return"):
            raise CallFailed(number)

    def worded(self, step: Call | Agent) -> str:
        """The text of a call, or a subagent's task; some are put differently in every life."""
        text = step.args if isinstance(step, Call) else step.name
        return f"{text}@{self.world.life}" if step.varies else text

    def retry_failed(self, number: int) -> None:
        """The mutants that take what is over for leave to try again (R4)."""
        if f"{self.ledger.rows[number].status} re-tried" in self.broken:
            self.ledger.change(number, status="prepared")

    def memo(self, task: Task, parent: int | None, step: Memo | Agent) -> Steps:
        """A call whose work is a body of the program's own; a subagent's body has a memory of its own (R0)."""
        if task.cancelled:
            raise TimedOut
        ledger, reader = self.ledger, task.reader
        name = self.worded(step) if isinstance(step, Agent) else step.name
        ask = Ask(AGENT if isinstance(step, Agent) else MEMO, name)
        number = ledger.find(ask, task.branch, parent, reader)
        ledger.meet(number, task)
        yield None
        delivered = False
        try:
            if ledger.rows[number].status not in OVER:
                ledger.change(number, status="running")
                yield None
                if isinstance(step, Agent):
                    task.reader = ledger.open(Reader())
                    task.reader.agent, task.reader.run = number, reader.run
                yield from self.compute(task, number, step)
            delivered = True
        finally:
            inner, task.reader = task.reader, reader
            ledger.release(number, task, delivered)
            if inner is not reader:
                ledger.readers.remove(inner)
        if ledger.rows[number].status == "failed":
            raise CallFailed(number)

    def compute(self, task: Task, number: int, step: Memo | Agent) -> Steps:
        """Do the work, and store what came of it."""
        try:
            yield from self.body(task, number, step.body)
        except CallFailed as error:
            self.ledger.change(number, status="failed", cause=error.row)
        except TimedOut:
            self.ledger.change(number, status="prepared")
            raise
        else:
            self.ledger.change(number, status="succeeded")
        self.ledger.let_go(number)
        yield None
