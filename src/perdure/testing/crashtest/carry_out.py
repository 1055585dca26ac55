"""A crash test from its first clean run to its last crash point."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from queue import SimpleQueue

from perdure.model.errors import SimulationMissing, SpecError
from perdure.runtime.crashpoints import KNOBS
from perdure.testing.crashtest.advice import ToolFacts
from perdure.testing.crashtest.counting import Expected, effects_of, expect
from perdure.testing.crashtest.forks import Ended, Forks
from perdure.testing.crashtest.order import LOOK, Order
from perdure.testing.crashtest.passages import Passages
from perdure.testing.crashtest.plan import Plan
from perdure.testing.crashtest.verdict import Passage
from perdure.testing.errors import CrashTestError
from perdure.testing.provider.client import Provider, ProviderError

CLEAN_ENDS = 2  # whether a receipt shares a commit is a matter of timing, so runs differ by a point or two
CLEAN_RUNS = 2
Tell = Callable[[str], None]
OnPassage = Callable[[Passage, int], None]


@dataclass(frozen=True, slots=True)
class Found:
    """What a crash test found.

    Args:
        name: of the job.
        points: numbered points of a clean run.
        passages: one for each crash point that was reached, in order.
        untried: the points of a clean run at which nothing was killed.
        approvals: what a clean run asks a person to approve.
    """

    name: str
    tools: tuple[ToolFacts, ...]
    expected: Expected
    points: int
    passages: tuple[Passage, ...]
    untried: tuple[int, ...]
    approvals: tuple[str, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether no crash point repeated or lost an effect, and none got stuck."""
        return not any(passage.verdict.is_bad for passage in self.passages)


def carry_out(plan: Plan, *, tell: Tell, on_passage: OnPassage) -> Found:
    """Carry a crash test out; every process that was started is gone afterwards.

    Args:
        plan: what is to be tried.
        tell: is given a line for what a person should know beforehand.
        on_passage: is told of each passage as it ends, with how many there will be about.

    Raises:
        SimulationMissing: a tool has no stand-in's value; nothing was run.
        SpecError: the job cannot be loaded.
        CrashTestError: it could not be carried out.
    """
    began = time.monotonic()
    try:
        with ExitStack() as stack:
            provider = stack.enter_context(Provider(plan.folder / "provider.jsonl", fsync=False))
            forks = [stack.enter_context(Forks(plan.folder, plan.life_seconds)) for _ in range(plan.jobs)]
            return _Test(plan, provider, forks, tell, on_passage).perform(began)
    except ProviderError as problem:
        raise CrashTestError(f"the provider did not do its part: {problem}") from problem


class _Test:
    def __init__(
        self, plan: Plan, provider: Provider, forks: Sequence[Forks], tell: Tell, on_passage: OnPassage
    ) -> None:
        self._plan = plan
        self._provider = provider
        self._free: SimpleQueue[Forks] = SimpleQueue()
        for fork in forks:
            self._free.put(fork)
        self._tell = tell
        self._on_passage = on_passage
        values = plan.folder / "values.json"
        values.write_text(json.dumps({"returns": plan.returns, "stored": plan.stored}), "utf-8")
        self._order = Order(
            do=LOOK,
            job=plan.job,
            state_dir="",
            mark="",
            provider_url=provider.url,
            provider_log=str(provider.log_path),
            values=str(values),
            report="",
            inputs=plan.inputs,
            policies=plan.policies,
            live=plan.live,
            stub_reads=plan.stub_reads,
        )

    def perform(self, began: float) -> Found:
        name, tools = self._look()
        self._order = replace(self._order, policies=(*self._plan.policies, *self._no_lag(tools)))
        keyed = frozenset(tool.name for tool in tools if tool.keyed and tool.key_is_sent)
        passages = Passages(self._plan, self._provider, self._order, keyed, self._in_a_fork)
        with ThreadPoolExecutor(self._plan.jobs) as pool:
            clean = list(pool.map(passages.clean, range(1, CLEAN_RUNS + 1)))
            log = self._provider.log()
            expected = expect([effects_of(log, run.mark) for run in clean], keyed)
            passages.expect(expected, frozenset(run for one in clean for run in one.approvals))
            points = max(run.points for run in clean)
            self._say_before(tools, expected, points)
            found = list(self._each_point(pool, passages, points))
            called = {facts.name: facts for run in clean for facts in run.tools}
            found += self._worst_moments(pool, passages, called, found)
        reached = tuple(passage for passage in found if passage.where is not None or passage.verdict.is_bad)
        tried = range(1, points + 1) if self._plan.worst else {passage.point for passage in found}
        return Found(
            name=name,
            tools=_merged(tools, called),
            expected=expected,
            points=points,
            passages=reached,
            untried=tuple(number for number in range(1, points + 1) if number not in tried),
            approvals=tuple(sorted({tool for run in clean for tool in run.approvals})),
            seconds=time.monotonic() - began,
        )

    def _in_a_fork(self, order: Order, knob: Mapping[str, str] | None) -> Ended:
        fork = self._free.get()
        try:
            ended = fork.go(order, knob)
        finally:
            self._free.put(fork)
        if missing := ended.told.get("missing"):
            raise missing_simulation(missing)
        return ended

    def _look(self) -> tuple[str, tuple[ToolFacts, ...]]:
        """Load the job, and demand a value for every tool that it names and that must not be entered."""
        ended = self._in_a_fork(self._order, None)
        if "tools" not in ended.told:
            said = ended.document.get("message") or ended.stderr.strip()[-2000:]
            raise SpecError([f"the job cannot be loaded: {said}"])
        tools = tuple(ToolFacts.of(members) for members in ended.told["tools"])
        named: list[str] = ended.told["named"]
        missing = [tool.name for tool in tools if tool.name in named and self._is_missing(tool)]
        if missing:
            raise missing_simulation(missing)
        return str(ended.told["name"]), tools

    def _is_missing(self, tool: ToolFacts) -> bool:
        reads = self._plan.stub_reads and tool.side_effect_class == "read_only"
        return not self._plan.live and tool.value_from is None and (tool.effectful or reads)

    def _no_lag(self, tools: Sequence[ToolFacts]) -> list[str]:
        """Return a policy that makes no probe wait: the stand-ins' provider shows at once what it has."""
        lagging = [tool for tool in tools if tool.effectful and tool.probe_lag_seconds > 0]
        if self._plan.live or not lagging:
            return []
        path = self._plan.folder / "no-lag.policy.json"
        rules = [{"tool": tool.name, "namespace": tool.namespace, "probe_lag": "0s"} for tool in lagging]
        path.write_text(json.dumps({"version": 1, "rules": rules}), "utf-8")
        return [str(path)]

    def _say_before(self, tools: Sequence[ToolFacts], expected: Expected, points: int) -> None:
        total = sum(expected.counts.values())
        self._tell(f"a clean run: {total} effects, {points} crash points")
        if expected.unsteady:
            named = ", ".join(expected.unsteady)
            self._tell(
                f"warning: two clean runs did not call {named} equally often; only doubles of one call show there"
            )
        if not total:
            self._tell("warning: a clean run has no effect, so nothing can be repeated or lost")
        silent = [tool.name for tool in tools if tool.keyed and not tool.key_is_sent]
        if silent and not self._plan.live:
            self._tell(
                f"warning: {', '.join(silent)}: declares key_ttl and takes no `call`, so its stand-in has no keys"
            )

    def _each_point(self, pool: ThreadPoolExecutor, passages: Passages, points: int) -> Iterator[Passage]:
        """Yield a passage for each point, in order, with as many under way as the plan says."""
        waiting: list[Future[Passage]] = []
        about = min(len(self._plan.points) or points, self._plan.max_points or points)
        clean, numbers = 0, self._plan.numbers()
        while clean < CLEAN_ENDS:
            room = self._plan.jobs - len(waiting)
            waiting += [pool.submit(passages.killed_at, number) for number in islice(numbers, room)]
            if not waiting:
                return
            passage = waiting.pop(0).result()
            clean = clean + 1 if passage.where is None and self._plan.goes_to_the_end else 0
            self._on_passage(passage, about)
            yield passage

    def _worst_moments(
        self,
        pool: ThreadPoolExecutor,
        passages: Passages,
        called: Mapping[str, ToolFacts],
        found: Sequence[Passage],
    ) -> list[Passage]:
        """Kill once after each tool with an effect where the numbers, which timing shifts, have jumped over that."""
        if not self._plan.worst and (self._plan.points or self._plan.max_points is not None):
            return []
        places = [passage.where or "" for passage in found]
        missed = [
            tool.name
            for tool in called.values()
            if tool.effectful
            and can_be_named(tool.name)
            and not any(place.startswith(f"after tool {tool.name} ") for place in places)
        ]
        more = list(pool.map(passages.killed_after, missed, range(len(missed))))
        for passage in more:
            self._on_passage(passage, len(found) + len(more))
        return more


def can_be_named(tool: str) -> bool:
    """Return whether a crash knob takes the name of a tool."""
    return KNOBS["AFTER_TOOL"][0].match(tool) is not None


def _merged(tools: Sequence[ToolFacts], called: dict[str, ToolFacts]) -> tuple[ToolFacts, ...]:
    """Return the tools that were known beforehand and those that only running the job has shown."""
    known = {tool.name: replace(tool, reached=tool.name in called) for tool in tools}
    late = {name: replace(tool, reached=True) for name, tool in called.items() if name not in known}
    return tuple(sorted({**known, **late}.values(), key=lambda tool: (not tool.effectful, tool.name)))


def missing_simulation(tools: Sequence[str]) -> SimulationMissing:
    """Return the error that names the tools without a value, and the ways out."""
    named = ", ".join(tools)
    ways = (
        f"a crash test does not enter {named}, and does not know what to return instead. The ways out:",
        f"in the code:      @{tools[0]}.simulate, a function with the same arguments",
        f"on the command line:  --returns {tools[0]}=JSON, or --returns '*=null' for every tool",
        "from a real run of the job:  --from-run RUN",
        "with the real tools, as often as there are crash points:  --live --max-points N",
    )
    return SimulationMissing("\n  ".join(ways), next_command=f"perdure crashtest JOB --returns {tools[0]}=JSON")
