"""Rules of the gateway and of settling, broken one at a time. Each scene is played twice: as it is, and with the rule broken."""

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import perdure
from tests.crash.child import Order
from tests.crash.failing_disk import FAULT_VARIABLE
from tests.crash.loop import Bench, Program
from tests.crash.planting import load
from tests.crash.support import AFTER_TOOL, Ended, LedgerFile, finish, planted, start_life

Counts = dict[str, int]
Scene = Callable[[Bench, str, str | None], Counts]
SLOW_SECONDS = 1.0
IN_DOUBT, STORE_UNUSABLE = 7, 4


def order_of(bench: Bench, function: str, tag: str) -> Order:
    return bench.order(Program(f"rules:{function}", {}), tag)


def live(bench: Bench, order: Order, bug: str | None, *others: str, resume: bool = False, knob: str = "") -> Ended:
    """One life, with a rule broken if `bug` names one."""
    plants = ",".join([*others, *([bug] if bug else [])])
    environ = {**planted(plants or None), **({AFTER_TOOL: knob} if knob else {})}
    return bench.live(replace(order, do="resume") if resume else order, environ)


def answered(bench: Bench, order: Order, ended: Ended) -> list[str]:
    """Let a person who has looked at the provider answer what waits."""
    assert ended.says["status"] == "waiting", ended
    return bench.person(order).answer(ended.says["waiting_for"])


def until_it_ends(bench: Bench, order: Order, bug: str | None, *, lives: int = 6) -> Counts:
    """Live and let a person answer until the run has succeeded; what the provider counted."""
    ended = live(bench, order, bug)
    for _ in range(lives):
        if ended.exit_code == 0:
            return bench.counts(str(order.inputs["tag"]))
        if ended.says["status"] == "waiting":
            answered(bench, order, ended)
        ended = live(bench, order, bug, resume=True)
    raise AssertionError(f"not ended after {lives} lives: {ended}")


def out_of_time(bench: Bench, tag: str, bug: str | None) -> Counts:
    order = order_of(bench, "out_of_time", tag)
    bench.provider.control("plain", what=f"{tag}:slow", delay_after_effect_seconds=SLOW_SECONDS)
    return until_it_ends(bench, order, bug)


def behind(bench: Bench, tag: str, bug: str | None) -> Counts:
    bench.provider.set(search_lag_seconds=SLOW_SECONDS)
    bench.provider.control("searchable", what=f"{tag}:sent", drop_reply_after_effect=True)
    return until_it_ends(bench, order_of(bench, "behind", tag), bug)


def twins(bench: Bench, tag: str, bug: str | None) -> Counts:
    """The first request is refused without a word about it, while the second one's answer is on its way."""
    what = f"{tag}:reminder"
    bench.provider.control("searchable", what=what, reject_before_effect=500)
    bench.provider.control("searchable", what=what, delay_after_effect_seconds=SLOW_SECONDS)
    return until_it_ends(bench, order_of(bench, "twins", tag), bug)


def second_refused(bench: Bench, tag: str, bug: str | None) -> Counts:
    """The first reminder is sent; of the second nothing is known, and the search finds the first."""
    what = f"{tag}:reminder"
    bench.provider.control("searchable", what=what, skip=1, reject_before_effect=500)
    return until_it_ends(bench, order_of(bench, "reminders", tag), bug)


def forgotten_key(bench: Bench, tag: str, bug: str | None) -> Counts:
    order = order_of(bench, "forgotten_key", tag)
    assert live(bench, order, bug, knob="shortly_keyed").crashed_at
    bench.provider.forget_keys()
    expires = LedgerFile(Path(order.state_dir)).column("key_expires_at")[0]
    while datetime.now(UTC) <= datetime.fromisoformat(expires):
        time.sleep(0.01)
    live(bench, order, bug, resume=True)
    return bench.counts(tag)


def nobody_knows(bench: Bench, tag: str, bug: str | None) -> Counts:
    order = order_of(bench, "nobody_knows", tag)
    assert live(bench, order, bug, knob="unclassified").crashed_at
    live(bench, order, bug, resume=True)
    return bench.counts(tag)


def one_key(bench: Bench, tag: str, bug: str | None) -> Counts:
    order = order_of(bench, "one_key", tag)
    for run_id in ("monday", "tuesday"):
        ended = live(bench, replace(order, run_id=run_id), bug)
        assert ended.exit_code == 0, ended
    return bench.counts(tag)


def beside_a_doubt(bench: Bench, tag: str, bug: str | None) -> Counts:
    bench.provider.control("plain", what=f"{tag}:lost", drop_reply_after_effect=True)
    bench.provider.control("read", what=f"{tag}:look", delay_after_effect_seconds=SLOW_SECONDS)
    ended = live(bench, order_of(bench, "beside_a_doubt", tag), bug)
    assert (ended.exit_code, ended.says["reason"]) == (IN_DOUBT, "in_doubt"), ended
    return bench.counts(tag)


def broken_guard(bench: Bench, tag: str, bug: str | None) -> Counts:
    live(bench, order_of(bench, "one", tag), bug, "the_guard_breaks")
    return bench.counts(tag)


def another_text(bench: Bench, tag: str, bug: str | None) -> Counts:
    """Life 2 is told that its first mail is the same; life 4 words both mails anew and must be asked again."""
    order = order_of(bench, "another_text", tag)
    assert live(bench, order, bug).says["status"] == "failed"
    assert answered(bench, order, live(bench, order, bug, resume=True)) == ["same"]
    third = live(bench, order, bug, resume=True)
    while third.says["status"] == "waiting":
        answered(bench, order, third)
        third = live(bench, order, bug, resume=True)
    for _ in range(4):
        ended = live(bench, order, bug, resume=True)
        if ended.exit_code == 0:
            break
        if ended.says["status"] == "waiting":
            answered(bench, order, ended)
    return bench.counts(tag)


def another_file(bench: Bench, tag: str, bug: str | None) -> Counts:
    """Life 2 encloses other bytes under the same name; whoever is asked knows that they are not those of Monday."""
    order = order_of(bench, "another_file", tag)
    assert live(bench, order, bug).says["status"] == "failed"
    second = live(bench, order, bug, resume=True)
    if second.says["status"] == "waiting":
        with perdure.open(state_dir=order.state_dir) as engine:
            engine.resolve(second.says["waiting_for"][0]["tool_call_id"], "another")
        second = live(bench, order, bug, resume=True)
    assert second.exit_code == 0, second
    return bench.counts(tag)


def full_disk(bench: Bench, tag: str, bug: str | None) -> Counts:
    """No room for the record of the first mail."""
    state = bench.folder / tag
    state.mkdir()
    letterbox = state / "letterbox"
    letterbox.touch()
    order = Order(str(state), "tests.crash.failing_disk:two_mails", inputs={"outside": str(letterbox)})
    ended = finish(start_life(order, {FAULT_VARIABLE: json.dumps({"what": "full", "at": "start"}), **planted(bug)}))
    assert ended.exit_code == STORE_UNUSABLE or bug, ended
    return {"mails": len(letterbox.read_text().split())}


@dataclass(frozen=True)
class Shown:
    """A broken rule, the scene that shows it, and what is counted with the rule and without it."""

    bug: str
    scene: Scene
    honest: Counts
    broken: Counts


BY_COUNT = [
    Shown("a_timeout_means_that_nothing_happened", out_of_time, {"slow": 1}, {"slow": 2}),
    Shown("the_probe_lag_is_not_waited_for", behind, {"sent": 1}, {"sent": 2}),
    Shown("a_probe_is_asked_beside_a_twin", twins, {"reminder": 2}, {"reminder": 1}),
    Shown("a_key_lives_for_ever", forgotten_key, {"paid": 1}, {"paid": 2}),
    Shown("a_probe_needs_no_reference", second_refused, {"reminder": 2}, {"reminder": 1}),
    Shown("references_are_shared", second_refused, {"reminder": 2}, {"reminder": 1}),
    Shown("a_file_is_known_by_its_name", another_file, {"monday": 1, "tuesday": 1}, {"monday": 1}),
    Shown("a_verdict_outlives_its_pair", another_text, {"first": 1, "second": 1}, {"first": 2, "second": 2}),
    Shown("a_doubt_holds_nobody_back", beside_a_doubt, {"lost": 1}, {"lost": 1, "other": 1}),
    Shown("what_nobody_classified_is_taken_for_a_read", nobody_knows, {"sent": 1}, {"sent": 2}),
    Shown("a_guard_that_breaks_lets_everything_pass", broken_guard, {}, {"one": 1}),
    Shown("a_failed_intent_is_sent_all_the_same", full_disk, {"mails": 0}, {"mails": 1}),
    Shown("the_dedupe_key_is_ignored", one_key, {"mail": 1}, {"mail": 2}),
]


@pytest.mark.parametrize("shown", BY_COUNT, ids=[shown.bug for shown in BY_COUNT])
def test_the_provider_counts_one_too_many_or_one_too_few(bench: Bench, shown: Shown) -> None:
    assert shown.scene(bench, "kept", None) == shown.honest
    assert shown.scene(bench, "broken", shown.bug) == shown.broken


def out_of_patience(bench: Bench, tag: str, bug: str | None) -> tuple[int, str | None]:
    bench.provider.control("plain", what=f"{tag}:slow", delay_after_effect_seconds=SLOW_SECONDS)
    ended = live(bench, order_of(bench, "out_of_patience", tag), bug)
    assert bench.counts(tag) == {"slow": 1}
    return ended.exit_code, ended.says["reason"]


def late_reply(bench: Bench, tag: str, bug: str | None) -> tuple[int, str | None]:
    """An owner is stopped before it reads the answer, taken over as if it were dead, and woken when it is too late."""
    order = order_of(bench, "one", tag)
    bench.provider.control("plain", what=f"{tag}:one", hold=True)
    owner = start_life(order, planted(bug))
    bench.provider.wait_for("held", what=f"{tag}:one", timeout_seconds=60)
    os.kill(owner.pid, signal.SIGSTOP)
    bench.provider.release()
    usurper = live(bench, order, None, "the_living_are_taken_for_dead", resume=True)
    assert (usurper.exit_code, usurper.says["reason"]) == (IN_DOUBT, "in_doubt"), usurper
    os.kill(owner.pid, signal.SIGCONT)
    assert finish(owner).says["error"] == "LeaseLost"
    ended = live(bench, order, None, resume=True)
    assert bench.counts(tag) == {"one": 1}
    return ended.exit_code, ended.says["reason"]


BY_WAITING = {"a_cancelled_caller_throws_the_receipt_away": out_of_patience, "a_late_reply_is_dropped": late_reply}


@pytest.mark.parametrize("bug", BY_WAITING)
def test_a_person_is_asked_for_nothing(bench: Bench, bug: str) -> None:
    assert BY_WAITING[bug](bench, "kept", None) == (0, None)
    assert BY_WAITING[bug](bench, "broken", bug) == (IN_DOUBT, "in_doubt")


def test_every_broken_rule_of_this_page_is_shown() -> None:
    shown = {*BY_WAITING, *(one.bug for one in BY_COUNT)}
    ours = {plant.name for plant in load().values() if plant.caught_by.startswith("test_planted_bugs_calls.py::")}
    assert shown == ours
