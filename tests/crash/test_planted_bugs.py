"""Each safety rule is broken once on purpose, and the loops must say so (design.md §9). A loop that cannot fail proves nothing."""

import os
import signal
from dataclasses import dataclass, replace

import pytest

from tests.crash.loop import Bench, Program, WrongCount, WrongWait
from tests.crash.planting import load
from tests.crash.programs import (
    BY_A_CHILD,
    DECLINED,
    REFERENCE,
    TEN,
    TWO_MINDS,
    changed,
    mails,
    memo_with_effects,
)
from tests.crash.support import Ended, finish, planted, start_life

LEASE_LOST = 5
WALKS = 3  # the number of a point is a matter of timing, so one walk may pass by the one at which a bug shows


@dataclass(frozen=True)
class Caught:
    """A planted bug, the program whose loop must catch it, and the effects that are then counted wrongly."""

    bug: str
    program: Program
    repeated: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()


BY_COUNT = [
    Caught("doubts_are_sent_again", REFERENCE, repeated=frozenset({"probed", "asked"})),
    Caught("the_tool_acts_before_the_record", REFERENCE, repeated=frozenset({"probed", "asked"})),
    Caught("each_attempt_has_a_new_key", REFERENCE, repeated=frozenset({"keyed", "last"})),
    Caught("a_receipt_is_given_to_everybody", mails("reminders", "keyed_scoped"), lost=frozenset({"reminder"})),
    Caught("settling_sends_what_was_only_prepared", TWO_MINDS, repeated=frozenset({"wrong"})),
    Caught("changed_arguments_are_not_challenged", changed("keyed_open"), repeated=frozenset({"mail"})),
    Caught("failures_are_tried_again", DECLINED, repeated=frozenset({"paid"})),
]
BY_WAITING = [
    ("receipts_are_not_stored", REFERENCE, "in doubt"),
    ("equal_calls_share_a_key", mails("reminders", "keyed_scoped"), "ended by itself"),
    ("a_memo_does_not_enclose_its_calls", memo_with_effects("keyed_open"), "nobody should be asked"),
]


@pytest.mark.parametrize("caught", BY_COUNT, ids=[caught.bug for caught in BY_COUNT])
def test_the_provider_counts_what_a_broken_rule_lets_through(bench: Bench, caught: Caught) -> None:
    with pytest.raises(WrongCount) as found:
        for _ in range(WALKS):
            bench.loop(caught.program, bug=caught.bug)
    assert found.value.repeated <= caught.repeated
    assert found.value.lost <= caught.lost
    assert found.value.repeated | found.value.lost


@pytest.mark.parametrize(("bug", "program", "why"), BY_WAITING, ids=[bug for bug, _, _ in BY_WAITING])
def test_a_run_that_stops_for_no_good_reason_is_seen(bench: Bench, bug: str, program: Program, why: str) -> None:
    with pytest.raises(WrongWait, match=why):
        bench.loop(program, bug=bug)


@pytest.mark.parametrize("bug", ["the_living_child_is_forgotten"])
def test_a_child_that_still_sends_makes_a_second_effect(bench: Bench, bug: str) -> None:
    """The probe says no while the child of the dead owner is about to send."""
    order = bench.order(BY_A_CHILD, "child")
    bench.provider.control("searchable", what="child:sent", hold_before_effect=True)
    life = start_life(order)
    bench.provider.wait_for("held", what="child:sent", timeout_seconds=60)
    life.kill()
    life.wait()
    resumed = bench.live(replace(order, do="resume"), planted(bug))
    assert resumed.says["status"] == "succeeded", resumed
    bench.provider.release()
    finish(life)
    assert bench.counts("child") == {"sent": 2, "told": 1}


def stale_owner(bench: Bench, bug: str | None) -> tuple[Ended, dict[str, int]]:
    """Stop an owner before it reads a reply, take its run over as if it were dead, wake it, and see what it still does."""
    program = mails("ten", "keyed_scoped")
    order = bench.order(program, "stale")
    bench.provider.control("keyed", what="stale:to0", hold=True, next=2)
    owner = start_life(order, planted(bug))
    bench.provider.wait_for("held", what="stale:to0", timeout_seconds=60)
    os.kill(owner.pid, signal.SIGSTOP)
    bench.provider.release()
    usurper = start_life(replace(order, do="resume"), planted("the_living_are_taken_for_dead"))
    bench.provider.wait_for("held", count=2, what="stale:to0", timeout_seconds=60)
    os.kill(owner.pid, signal.SIGCONT)
    ended = finish(owner)
    counts = bench.counts("stale")
    usurper.kill()
    usurper.wait()
    finish(usurper)
    bench.provider.release()
    return ended, counts


def test_a_stale_owner_sends_nothing(bench: Bench) -> None:
    ended, counts = stale_owner(bench, None)
    assert (ended.exit_code, ended.says["error"]) == (LEASE_LOST, "LeaseLost"), ended
    assert counts == {"to0": 1}


@pytest.mark.parametrize("bug", ["the_fence_is_not_checked"])
def test_without_the_fence_a_stale_owner_goes_on_sending(bench: Bench, bug: str) -> None:
    ended, counts = stale_owner(bench, bug)
    assert ended.exit_code == 0, ended
    assert counts == TEN


def test_every_broken_rule_of_this_page_is_shown() -> None:
    shown = {caught.bug for caught in BY_COUNT} | {bug for bug, _, _ in BY_WAITING}
    shown |= {"the_living_child_is_forgotten", "the_fence_is_not_checked"}
    ours = {plant.name for plant in load().values() if plant.caught_by.startswith("test_planted_bugs.py::")}
    assert shown == ours
