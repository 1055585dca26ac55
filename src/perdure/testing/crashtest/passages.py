"""The passages of a crash test: a life that is killed at a point, and further lives until the run has ended."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from perdure.testing.crashtest.advice import ToolFacts, stand_in_of
from perdure.testing.crashtest.counting import Difference, Expected, compare, effects_of
from perdure.testing.crashtest.forks import AFTER_TOOL, AT_POINT, Ended
from perdure.testing.crashtest.order import ANSWER, LIVE, UNANSWERED, Order
from perdure.testing.crashtest.plan import Plan
from perdure.testing.crashtest.verdict import Asked, Passage, trouble_of
from perdure.testing.errors import CrashTestError
from perdure.testing.provider.client import Provider

NO_POINT = 1_000_000_000
"""No process has so many points: a life with this one ends by itself and says how many it has passed."""
MOST_LIVES = 8
Go = Callable[[Order, Mapping[str, str] | None], Ended]


@dataclass(frozen=True, slots=True)
class Clean:
    """A run that nobody killed.

    Args:
        mark: of its effects in the provider's log.
        points: numbered points of all its lives.
        approvals: the tools that a person had to approve.
        tools: those that it called, as the policy sees them.
    """

    mark: str
    points: int
    approvals: tuple[str, ...]
    tools: tuple[ToolFacts, ...]


@dataclass(slots=True)
class _Course:
    """What is known of one run so far.

    Args:
        left: how many points are to be passed before it is killed.
        tool: or after which tool it is killed.
    """

    left: int | None = None
    tool: str | None = None
    lives: int = 0
    points: int = 0
    where: str | None = None
    questions: list[Asked] = field(default_factory=list[Asked])
    trouble: str = ""
    unanswered: bool = False
    tools: dict[str, ToolFacts] = field(default_factory=dict[str, ToolFacts])

    def lived(self, ended: Ended) -> None:
        """Take in how a life ended."""
        self.lives += 1
        self.tools |= {facts.name: facts for facts in map(ToolFacts.of, ended.told.get("tools", ()))}
        self.points += ended.points or 0
        if ended.where is not None:
            self.where, self.left, self.tool = ended.where, None, None
        elif self.left is not None:
            self.left -= ended.points or 0
        if ended.where is None:
            told = {"document": ended.document, "too_long": ended.too_long, "exit_code": ended.exit_code}
            self.trouble = trouble_of({**told, "stderr": ended.stderr})

    @property
    def knob(self) -> dict[str, str] | None:
        """What kills the next life, if anything does."""
        if self.left is not None:
            return {AT_POINT: str(self.left)}
        return None if self.tool is None else {AFTER_TOOL: self.tool}


class Passages:
    """Carries runs through.

    Args:
        order: what all orders have in common.
        keyed: the tools whose provider must make one of equal keys.
        go: carries out one order, with a crash point or without.
    """

    def __init__(self, plan: Plan, provider: Provider, order: Order, keyed: frozenset[str], go: Go) -> None:
        self._plan = plan
        self._provider = provider
        self._order = order
        self._keyed = keyed if plan.live else frozenset[str]()
        self._go = go
        self._expected = Expected({}, {})
        self._approved: frozenset[str] = frozenset()

    def expect(self, expected: Expected, approved: frozenset[str]) -> None:
        """Say what every run must have done at its end, and for which tools a person is asked anyway."""
        self._expected, self._approved = expected, approved
        self._order = replace(self._order, counts=expected.counts, levels=expected.levels)

    def clean(self, number: int) -> Clean:
        """Run the job once and kill nothing.

        Raises:
            CrashTestError: it does not succeed.
        """
        order = self._order_for(f"clean{number}")
        course = self._through(order, _Course(left=NO_POINT))
        asked = [question for question in course.questions if question.kind != "approval"]
        trouble = course.trouble or (asked[0].summary if asked else "")
        if trouble:
            raise _does_not_get_through(trouble, self._plan, course.tools.values())
        self._tidy(Path(order.state_dir), needed=False)
        approvals = tuple(question.tool for question in course.questions)
        return Clean(order.mark, course.points, approvals, tuple(course.tools.values()))

    def killed_at(self, point: int) -> Passage:
        """Run the job, kill it at a point, and go on until it has ended; then once more."""
        return self._killed(f"point{point}", point, _Course(left=point))

    def killed_after(self, tool: str, number: int) -> Passage:
        """Do the same with a kill at the worst moment of a tool: its result received, its receipt not stored."""
        return self._killed(f"after{number}", None, _Course(tool=tool))

    def _killed(self, mark: str, point: int | None, course: _Course) -> Passage:
        began = time.monotonic()
        order = self._order_for(mark)
        self._through(order, course)
        effects = effects_of(self._provider.log(), order.mark)
        difference = compare(effects, self._expected, self._keyed)
        if course.unanswered:
            difference = Difference(difference.repeated, {})  # it has not ended: what is missing may still come
        passage = Passage(
            point=point,
            where=course.where,
            lives=course.lives,
            questions=tuple(asked for asked in course.questions if not self._is_usual(asked)),
            trouble=course.trouble,
            difference=difference,
            folder=order.state_dir,
            seconds=time.monotonic() - began,
        )
        self._tidy(Path(order.state_dir), needed=passage.verdict.is_bad)
        return passage

    def _is_usual(self, asked: Asked) -> bool:
        return asked.kind == "approval" and asked.tool in self._approved

    def _order_for(self, mark: str) -> Order:
        folder = self._plan.folder / mark
        folder.mkdir()
        return replace(self._order, do=LIVE, mark=mark, state_dir=str(folder))

    def _tidy(self, folder: Path, *, needed: bool) -> None:
        if not (needed or self._plan.keep):
            shutil.rmtree(folder, ignore_errors=True)

    def _through(self, order: Order, course: _Course) -> _Course:
        while True:
            ended = self._go(order, course.knob)
            course.lived(ended)
            order = replace(order, reopens=True)
            if ended.where is None:
                if course.trouble:
                    return course
                if ended.document.get("status") == "succeeded":
                    break
                if not self._answered(order, course, str(ended.document.get("reason"))):
                    return course
            if course.lives >= MOST_LIVES:
                course.trouble = f"the run has not ended after {course.lives} lives"
                return course
        self._once_more(order, course)
        return course

    def _answered(self, order: Order, course: _Course, reason: str) -> bool:
        """Answer what a run waits for, and return whether it can go on."""
        found = self._go(replace(order, do=ANSWER), None)
        answers = [Asked(**answer) for answer in found.told.get("answers", ())]
        course.questions += answers
        if any(asked.answer != UNANSWERED for asked in answers):
            return True
        course.unanswered = bool(answers)
        if not answers:
            said = f": {found.document['message']}" if "message" in found.document else ""
            course.trouble = f"the run waits ({reason}), and there is nothing to answer{said}"
        return False

    def _once_more(self, order: Order, course: _Course) -> None:
        """Resume the finished run: nothing may change, which the count at the end shows."""
        again = self._go(order, None)
        course.lives += 1
        if again.document.get("status") != "succeeded":
            course.trouble = f"one more resume of the finished run: {again.document.get('status') or again.exit_code}"


def _does_not_get_through(trouble: str, plan: Plan, tools: Iterable[ToolFacts]) -> CrashTestError:
    """Return the error of a job that fails by itself, or by what its stand-ins gave it."""
    said = f"the job does not get through even when nothing is killed: {trouble}"
    if plan.live:
        return CrashTestError(said, next_command="perdure run JOB   # make it succeed first")
    safe = "No tool that sends was entered."
    stood = sorted((tool.name, stood_by) for tool in tools if (stood_by := stand_in_of(tool, plan)) is not None)
    if not stood:
        return CrashTestError(said, safe=safe, next_command="perdure run JOB   # it really sends; make it succeed")
    given = ", ".join(f"{name} ({where})" for name, where in stood)
    return CrashTestError(
        f"{said}; what stood in for its tools may give it what it cannot use: {given}",
        safe=safe,
        next_command=f"perdure crashtest JOB --returns {stood[0][0]}=JSON   # a value as the tool itself returns it",
    )
