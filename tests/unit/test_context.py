"""What one life has seen, holds and has not met: the rules of the memory, one by one and against a naive model."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perdure.model.toolcall import CallKey, CallRow, CallStatus, ReplayPolicy, SideEffectClass
from perdure.runtime.context import Context

KEYS = tuple(CallKey("local", name, digest) for name in ("mail", "pay") for digest in ("x", "y"))
BRANCHES = ("0", "0.0", "0.1")


def row(
    number: int,
    key: CallKey = KEYS[0],
    *,
    branch: str = "0",
    status: CallStatus = CallStatus.SUCCEEDED,
    parent: int | None = None,
    same_as: int | None = None,
) -> CallRow:
    """Return the ``number``-th row of a run."""
    return CallRow(
        call_no=number,
        tool_call_id=f"r1.{number}",
        run_id="r1",
        step_id="r1.s0",
        tool_namespace=key.namespace,
        tool_name=key.tool_name,
        side_effect_class=SideEffectClass.EXTERNAL,
        replay_policy=ReplayPolicy.ASK,
        status=status,
        attempt=1,
        occurrence=1,
        args_hash=key.args_hash,
        effect_scope=None,
        idempotency_key=f"k{number}",
        fence=1,
        branch=branch,
        parent_call_id=None if parent is None else f"r1.{parent}",
        same_as=None if same_as is None else f"r1.{same_as}",
    )


class Memory:
    """A context over the given rows of earlier lives."""

    def __init__(self, *rows: CallRow) -> None:
        self.rows = {item.call_no: item for item in rows}
        self.context = Context()
        self.context.load(rows)

    def unmet(self) -> list[int]:
        """Return what has not been met, oldest first."""
        return sorted(self.context.unmet())

    def take(self, key: CallKey = KEYS[0], branch: str = "0") -> int | None:
        """Adopt a row as a call of this life does."""
        found = self.context.find_equal(key, branch, self.rows.__getitem__)
        if found is None:
            return None
        self.context.hold(found.call_no)
        return found.call_no

    def deliver(self, number: int) -> None:
        """Give the row's outcome to its caller."""
        self.context.saw(self.rows[number])


def test_everything_of_an_earlier_life_is_unmet_but_what_is_void() -> None:
    memory = Memory(
        row(1),
        row(2, status=CallStatus.FAILED),
        row(3, status=CallStatus.CANCELLED),
        row(4, status=CallStatus.IN_DOUBT),
        row(5, status=CallStatus.CANCELLED, same_as=1),
    )
    assert memory.unmet() == [1, 2, 4, 5]


def test_a_held_row_is_neither_unmet_nor_seen_and_a_delivered_one_is_seen() -> None:
    memory = Memory(row(1))
    assert memory.take() == 1
    assert memory.unmet() == []
    assert memory.context.holds(1)
    assert 1 not in memory.context.main.seen
    memory.deliver(1)
    assert not memory.context.holds(1)
    assert memory.context.main.seen == {1}
    assert memory.take() is None


def test_equal_calls_meet_the_oldest_row_first_each_once() -> None:
    memory = Memory(row(1), row(2), row(3, KEYS[1]))
    assert [memory.take(), memory.take(), memory.take(), memory.take(KEYS[1])] == [1, 2, None, 3]


def test_a_branch_meets_its_own_row_first_and_else_the_oldest() -> None:
    memory = Memory(row(1, branch="0.0"), row(2, branch="0.1"), row(3, branch="0.0"))
    assert memory.take(branch="0.1") == 2
    assert memory.take(branch="0.1") == 1
    assert memory.take(branch="0.0") == 3


def test_a_freed_row_is_unmet_again_in_its_old_place() -> None:
    memory = Memory(row(1), row(2), row(3))
    assert memory.take() == 1
    memory.context.free(memory.rows[1])
    assert memory.unmet() == [1, 2, 3]
    assert memory.context.unmet_of_tool(KEYS[0]) == [1, 2, 3]
    assert [memory.take(branch="0.1"), memory.take()] == [1, 2]


def test_a_row_with_two_holders_is_free_only_when_both_let_go() -> None:
    memory = Memory(row(1))
    memory.context.hold(1)
    memory.context.hold(1)
    memory.context.free(memory.rows[1])
    assert memory.unmet() == []
    memory.context.free(memory.rows[1])
    assert memory.unmet() == [1]


def test_a_row_that_one_holder_has_seen_does_not_become_unmet() -> None:
    memory = Memory(row(1))
    memory.context.hold(1)
    memory.context.hold(1)
    memory.deliver(1)
    memory.context.free(memory.rows[1])
    assert memory.unmet() == []
    assert 1 in memory.context.main.seen


def test_a_met_memo_encloses_what_was_called_inside_it() -> None:
    memo = CallKey("memo", "draft", "m")
    rows = (row(1, memo), row(2, parent=1), row(3, KEYS[1], parent=2), row(4))
    memory = Memory(*rows)
    assert memory.take(memo) == 1
    assert memory.unmet() == [2, 3, 4]
    memory.deliver(1)
    assert memory.unmet() == [4]
    assert memory.context.main.seen == {1, 2, 3}


def test_a_failed_call_encloses_too_and_an_abandoned_one_does_not() -> None:
    for status, left in ((CallStatus.FAILED, []), (CallStatus.ABANDONED, [2])):
        memory = Memory(row(1, status=status), row(2, KEYS[1], parent=1))
        memory.take()
        memory.deliver(1)
        assert memory.unmet() == left


def test_an_inner_call_that_is_let_go_after_its_memo_was_met_counts_as_met() -> None:
    memo = CallKey("memo", "draft", "m")
    memory = Memory(row(1, memo), row(2, parent=1))
    assert memory.take() == 2
    memory.take(memo)
    memory.deliver(1)
    memory.context.free(memory.rows[2])
    assert memory.unmet() == []


def test_a_row_that_stands_for_another_is_not_met_twice() -> None:
    memory = Memory(row(1), row(2, KEYS[1], status=CallStatus.CANCELLED, same_as=1))
    assert memory.take() is None
    assert memory.take(KEYS[1]) == 2


def test_a_branch_prefers_its_own_second_row_when_its_first_is_spoken_for() -> None:
    memory = Memory(
        row(1, branch="0.0"), row(2, branch="0.1"), row(3, branch="0.0"), row(4, KEYS[1], status=CANCELLED, same_as=1)
    )
    assert memory.take(branch="0.0") == 3


def test_a_verdict_of_this_life_makes_a_row_spoken_for() -> None:
    memory = Memory(row(1), row(2))
    memory.context.saw(row(9, KEYS[1], status=CANCELLED, same_as=1))
    assert memory.take() == 2
    assert memory.take() is None


def test_a_row_that_was_cancelled_since_it_was_loaded_is_not_adopted() -> None:
    memory = Memory(row(1, status=CallStatus.AWAITING_APPROVAL), row(2))
    memory.rows[1] = row(1, status=CANCELLED)
    assert memory.take() == 2


CANCELLED = CallStatus.CANCELLED


class Naive:
    """The definitions of R0, word for word, over sets."""

    def __init__(self, rows: list[CallRow]) -> None:
        self.rows = {item.call_no: item for item in rows}
        self.holders: Counter[int] = Counter()
        self.delivered: set[int] = set()
        self.counted_as_met: set[int] = set()

    def seen(self) -> set[int]:
        """Return what was delivered, counted as met, or lies under a met call that succeeded or failed."""
        found = self.delivered | self.counted_as_met
        closed = {n for n in self.delivered if self.rows[n].status in (CallStatus.SUCCEEDED, CallStatus.FAILED)}
        return found | {n for n in self.rows if not closed.isdisjoint(self.ancestors(n))}

    def ancestors(self, number: int) -> set[int]:
        """Return the calls that a call was made inside of."""
        parent = self.rows[number].parent_call_id
        if parent is None:
            return set()
        above = int(parent.removeprefix("r1."))
        return {above} | self.ancestors(above)

    def unmet(self) -> set[int]:
        """Return what is neither held nor seen nor void."""
        held = {number for number, count in self.holders.items() if count > 0}
        return {n for n, item in self.rows.items() if not item.void} - held - self.seen()

    def adopted_by(self, key: CallKey, branch: str) -> int | None:
        """Return the row that F3 gives to a call."""
        spoken_for = {item.same_as for item in self.rows.values() if item.same_as is not None}
        fit = [
            n
            for n in sorted(self.unmet())
            if (self.rows[n].tool_namespace, self.rows[n].tool_name, self.rows[n].args_hash)
            == (key.namespace, key.tool_name, key.args_hash)
            and self.rows[n].tool_call_id not in spoken_for
        ]
        own = [n for n in fit if self.rows[n].branch == branch]
        return next(iter(own or fit), None)


@st.composite
def lineages(draw: st.DrawFn) -> list[CallRow]:
    """Return rows of earlier lives: trees of calls, some of which stand for others."""
    made: list[CallRow] = []
    for number in range(1, draw(st.integers(1, 9)) + 1):
        older = st.none() | st.integers(1, number - 1) if number > 1 else st.none()
        status = draw(st.sampled_from(CallStatus))
        made.append(
            row(
                number,
                draw(st.sampled_from(KEYS[:3])),
                branch=draw(st.sampled_from(BRANCHES)),
                status=status,
                parent=draw(older),
                same_as=draw(older) if status is CANCELLED else None,
            )
        )
    return made


class MemoryMachine(RuleBasedStateMachine):
    """Calls that adopt, are answered or are cancelled, in any order."""

    @initialize(rows=lineages())
    def begin(self, rows: list[CallRow]) -> None:
        """Load the rows of earlier lives."""
        self.naive = Naive(rows)
        self.memory = Memory(*rows)
        self.live: list[int] = []

    @rule(key=st.sampled_from(KEYS), branch=st.sampled_from(BRANCHES))
    def call(self, key: CallKey, branch: str) -> None:
        """Make a call; it adopts what F3 gives it."""
        expected = self.naive.adopted_by(key, branch)
        assert self.memory.take(key, branch) == expected
        if expected is not None:
            self.naive.holders[expected] += 1
            self.live.append(expected)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def join(self, data: Any) -> None:
        """Let a second call wait for the same row."""
        number = data.draw(st.sampled_from(self.live))
        self.memory.context.hold(number)
        self.naive.holders[number] += 1
        self.live.append(number)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def answer(self, data: Any) -> None:
        """Deliver a row's outcome to one of its callers."""
        number = data.draw(st.sampled_from(self.live))
        self.live.remove(number)
        self.memory.deliver(number)
        self.naive.holders[number] -= 1
        self.naive.delivered.add(number)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        """Cancel one of a row's callers."""
        number = data.draw(st.sampled_from(self.live))
        self.live.remove(number)
        self.memory.context.free(self.memory.rows[number])
        self.naive.holders[number] -= 1

    @rule(data=st.data())
    def count_as_met(self, data: Any) -> None:
        """Let a person say that another row is the same as this one."""
        number = data.draw(st.sampled_from(sorted(self.memory.rows)))
        self.memory.context.met(number)
        self.naive.counted_as_met.add(number)

    @invariant()
    def the_sets_agree(self) -> None:
        """Compare every set that the rules look at."""
        unmet = self.naive.unmet()
        assert set(self.memory.context.unmet()) == unmet
        assert self.naive.delivered <= self.memory.context.main.seen <= self.naive.seen()
        for key in KEYS:
            same_tool = sorted(
                n
                for n in unmet
                if (self.naive.rows[n].tool_namespace, self.naive.rows[n].tool_name) == (key.namespace, key.tool_name)
            )
            assert self.memory.context.unmet_of_tool(key) == same_tool
            assert self.memory.context.may_find(key) or self.naive.adopted_by(key, "0") is None
        for number in self.memory.rows:
            assert self.memory.context.holds(number) is (self.naive.holders[number] > 0)


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(max_examples=80, stateful_step_count=25, deadline=None, database=None)
