"""Rules of ownership, quarantine, suspension and probes: each scene is seen with its rule, and with the rule broken.

What a scene gives back is what somebody outside sees: exit codes, and what the provider has counted.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import perdure
from tests.crash import pids
from tests.crash.child import Order
from tests.crash.loop import Bench, Program
from tests.crash.planting import HELP, load
from tests.crash.support import AFTER_TOOL, ROOT, LedgerFile, finish, planted, start_life
from tests.crash.test_suspension_siblings import PATIENCE_SECONDS, wait_until

LEASE_HELD, IN_DOUBT, REFUSED = 5, 7, 1
Seen = tuple[Any, ...]
Scene = Callable[[Bench, str | None], Seen]


def order_of(bench: Bench, job: str, bug: str | None, **inputs: Any) -> Order:
    return bench.order(Program(job, {}, inputs), bug or "honest")


def held_life(bench: Bench, order: Order, kind: str, what: str, **how: Any) -> "subprocess.Popen[str]":
    """Start a life in a process of its own, and return when its request is held at the provider."""
    name = f"{order.inputs['tag']}:{what}"
    bench.provider.control(kind, what=name, **(how or {"hold": True}))
    life = start_life(order)
    bench.provider.wait_for("held", what=name, timeout_seconds=PATIENCE_SECONDS)
    return life


def resumed(bench: Bench, order: Order, bug: str | None) -> int:
    return bench.live(replace(order, do="resume"), planted(bug)).exit_code


def counts(bench: Bench, order: Order) -> dict[str, int]:
    return bench.counts(str(order.inputs["tag"]))


# --- who is the owner, and does it live ------------------------------------------------------------------------------


def a_number_is_taken_over(bench: Bench, bug: str | None) -> Seen:
    """The owner was killed, and the kernel has given its number to somebody else, who must not be touched either."""
    if not pids.can_choose():
        pytest.skip("this kernel does not let the test choose the number of a process")
    order = order_of(bench, "probes:one", bug, tool="searched")
    life = held_life(bench, order, "searchable", "one")
    life.kill()
    finish(life)
    bench.provider.release()
    stranger = pids.with_number(life.pid)
    try:
        code = resumed(bench, order, bug)
        return code, stranger.poll()
    finally:
        stranger.communicate()


def an_owner_is_a_zombie(bench: Bench, bug: str | None) -> Seen:
    """The owner was killed, and its parent has not collected it."""
    order = order_of(bench, "probes:one", bug, tool="searched")
    life = held_life(bench, order, "searchable", "one")
    life.kill()
    os.waitid(os.P_PID, life.pid, os.WEXITED | os.WNOWAIT)
    bench.provider.release()
    code = resumed(bench, order, bug)
    finish(life)
    return code, counts(bench, order)


def only_the_first_thread_has_ended(bench: Bench, bug: str | None) -> Seen:
    """The process is a zombie by its state, and a thread of it stands at the provider's door."""
    order = order_of(bench, "probes:first_thread_ends", bug, tool="searched")
    life = held_life(bench, order, "searchable", "one", hold_before_effect=True)
    (Path(order.state_dir) / "workspaces" / order.run_id / "go").touch()
    stat = Path(f"/proc/{life.pid}/stat")
    wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", "the first thread has ended")
    resume = replace(order, do="resume", job="probes:one")
    with perdure.open(state_dir=order.state_dir) as engine:
        assert engine.outcome(order.run_id).status == "running"
    code = bench.live(resume, planted(bug)).exit_code
    bench.provider.release()
    bench.provider.wait_for("effect", what=f"{order.inputs['tag']}:one", timeout_seconds=PATIENCE_SECONDS)
    life.kill()
    finish(life)
    return code == LEASE_HELD, counts(bench, order)


def a_loop_is_held_up_longer_than_its_lease(bench: Bench, bug: str | None) -> Seen:
    """Another machine, which sees the lease only, tries to take the run over meanwhile."""
    order = order_of(bench, "owners:holds_up_its_loop", bug)
    owner = start_life(order, planted(",".join(filter(None, ["leases_are_short", bug]))))
    workspace = Path(order.state_dir) / "workspaces" / order.run_id
    wait_until((workspace / "blocked").exists, "the loop is held up")
    rival = replace(order, do="resume")
    codes = set()
    while owner.poll() is None and codes <= {LEASE_HELD}:
        codes.add(bench.live(rival, planted("leases_are_short,this_is_another_host")).exit_code)
    ended = finish(owner)
    # A rival that came after the end was given the stored outcome.
    return ended.exit_code, codes - {0} == {LEASE_HELD}


# --- who may still be sending ----------------------------------------------------------------------------------------


class Orphan:
    """A life that was killed while a child of its tool stood at the provider's door."""

    def __init__(self, bench: Bench, bug: str | None, manner: str) -> None:
        self.bench = bench
        self.order = order_of(bench, "offspring:main", bug, manner=manner)
        name = f"{self.order.inputs['tag']}:sent"
        bench.provider.control("searchable", what=name, hold_before_effect=True)
        command = [sys.executable, "-m", "tests.crash.child", self.order.text]
        self.life = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL)
        bench.provider.wait_for("held", what=name, timeout_seconds=PATIENCE_SECONDS)
        self.child = int((Path(self.order.state_dir) / "workspaces" / "job" / "child.pid").read_text())

    def counted(self) -> dict[str, int]:
        """What was counted when everything has landed."""
        self.bench.provider.release()
        wait_until(lambda: not lives(self.child), "the child has ended")
        return counts(self.bench, self.order)


def lives(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def a_child_hides(bench: Bench, bug: str | None) -> Seen:
    """The child was started with an environment of its own, and its parent is dead."""
    orphan = Orphan(bench, bug, "without our environment")
    orphan.life.kill()
    orphan.life.wait()
    code = resumed(bench, orphan.order, bug)
    return code, orphan.counted().get("sent")


def a_person_is_too_quick(bench: Bench, bug: str | None) -> Seen:
    """A person says "it did not happen" while an orphan is about to make it happen."""
    orphan = Orphan(bench, bug, "plain")
    orphan.life.kill()
    orphan.life.wait()
    assert resumed(bench, orphan.order, None) == IN_DOUBT
    call = LedgerFile(Path(orphan.order.state_dir)).calls()[0].tool_call_id
    words = ["resolve", call, "--did-not-happen", "--state-dir", orphan.order.state_dir]
    said = bench.live(replace(orphan.order, do="command", inputs={**orphan.order.inputs, "words": words}), planted(bug))
    if said.exit_code == 0:
        resumed(bench, orphan.order, "the_living_child_is_forgotten")  # what was answered settles it; nothing is asked
    return said.exit_code == 0, orphan.counted().get("sent")


def a_signal_comes_while_a_child_sends(bench: Bench, bug: str | None) -> Seen:
    orphanage = order_of(bench, "offspring:main", bug, manner="in a session of its own")
    order = replace(orphanage, tuning={"interrupt_grace_seconds": 0.2})
    life = held_life_of_offspring(bench, order, bug)
    child = int((Path(order.state_dir) / "workspaces" / "job" / "child.pid").read_text())
    life.send_signal(signal.SIGINT)
    life.wait(PATIENCE_SECONDS)
    outlived = lives(child)
    bench.provider.release()
    wait_until(lambda: not lives(child), "the child has ended")
    finish(life)
    return (outlived,)


def held_life_of_offspring(bench: Bench, order: Order, bug: str | None) -> "subprocess.Popen[str]":
    name = f"{order.inputs['tag']}:sent"
    bench.provider.control("searchable", what=name, hold_before_effect=True)
    life = start_life(order, planted(bug))
    bench.provider.wait_for("held", what=name, timeout_seconds=PATIENCE_SECONDS)
    return life


def one_that_lands_late(job: str, tool: str) -> Scene:
    """A tool past its timeout, whose request lands much later, and whose probe would say no until then."""

    def scene(bench: Bench, bug: str | None) -> Seen:
        order = order_of(bench, job, bug, tool=tool)
        name = f"{order.inputs['tag']}:one"
        bench.provider.control("searchable", what=name, delay_before_effect_seconds=0.8)
        ended = bench.live(order, planted(bug))
        requests = LedgerFile(Path(order.state_dir)).calls()[0].attempt
        wait_until(lambda: counts(bench, order).get("one") == requests, "all that was sent has landed")
        return ended.exit_code, counts(bench, order)

    return scene


def a_late_answer(bench: Bench, bug: str | None) -> Seen:
    order = order_of(bench, "waiting:late_sync", bug)
    bench.provider.control("plain", what=f"{order.inputs['tag']}:late", delay_after_effect_seconds=0.4)
    return (bench.live(order, planted(bug)).exit_code,)


def a_caller_that_loses_patience(bench: Bench, bug: str | None) -> Seen:
    order = order_of(bench, "waiting:bounded_send", bug)
    bench.provider.control("keyed", what=f"{order.inputs['tag']}:slow", delay_after_effect_seconds=0.4)
    ended = bench.live(order, planted(bug))
    return ended.exit_code, counts(bench, order)


# --- what a provider says --------------------------------------------------------------------------------------------


def a_clock_is_set_back(bench: Bench, bug: str | None) -> Seen:
    """The life that sent dies; one that lives two hours later sees the key expired; then the clock is set back."""
    order = order_of(bench, "probes:one", bug, tool="keyed")
    bench.provider.control("keyed", what=f"{order.inputs['tag']}:one", delay_after_effect_seconds=0.01)
    bench.provider.set(key_ttl_seconds=3600)
    assert bench.live(order, {AFTER_TOOL: "keyed"}).crashed_at
    bench.provider.set(clock_ahead_seconds=7200)
    later = replace(order, do="resume", clock_ahead_seconds=7200.0)
    assert bench.live(later, {}).exit_code == IN_DOUBT
    code = resumed(bench, order, bug)
    bench.provider.set(clock_ahead_seconds=0, key_ttl_seconds=None)
    return code, counts(bench, order)


def a_list_has_pages(bench: Bench, bug: str | None) -> Seen:
    order = order_of(bench, "probes:three_in_a_list", bug, tool="listed")
    bench.provider.set(search_page_size=1)
    bench.provider.control("searchable", what=f"{order.inputs['tag']}:three", drop_reply_after_effect=True)
    code = bench.live(order, planted(bug)).exit_code
    bench.provider.set(search_page_size=100)
    return code, counts(bench, order)["three"]


def a_search_misses_it_once(bench: Bench, bug: str | None) -> Seen:
    order = order_of(bench, "probes:one", bug, tool="searched_late")
    bench.provider.control("searchable", what=f"{order.inputs['tag']}:one", drop_reply_after_effect=True)
    bench.provider.set(search_miss_next=1)
    code = bench.live(order, planted(bug)).exit_code
    bench.provider.set(search_miss_next=0)
    return code, counts(bench, order)


def a_repetition_is_turned_away(bench: Bench, bug: str | None) -> Seen:
    order = order_of(bench, "probes:falls_back", bug)
    name = f"{order.inputs['tag']}:A"
    bench.provider.control("keyed", what=name, drop_reply_after_effect=True)
    bench.provider.control("keyed", what=name, reject_before_effect=503, next=5)
    code = bench.live(order, planted(bug)).exit_code
    bench.provider.clear_faults()
    return code, counts(bench, order)


def the_first_request_lands_last(bench: Bench, bug: str | None) -> Seen:
    """The probe says no, truly; the call is sent again; then the first request lands too."""
    order = order_of(bench, "probes:one_and_then_waits", bug, tool="searched")
    name = f"{order.inputs['tag']}:one"
    bench.provider.control("searchable", what=name, land_late_on_release=True)
    life = start_life(order, planted(bug))
    bench.provider.wait_for("effect", what=name, timeout_seconds=PATIENCE_SECONDS)
    bench.provider.release()
    bench.provider.wait_for("effect", what=name, count=2, timeout_seconds=PATIENCE_SECONDS)
    (Path(order.state_dir) / "workspaces" / order.run_id / "go").touch()
    ended = finish(life)
    with perdure.open(state_dir=order.state_dir) as engine:
        told = [item.summary for _, item in engine.inbox()]
    return ended.exit_code, ended.says["duplicates_found"], ["was done twice" in text for text in told]


def a_probe_raises(bench: Bench, bug: str | None) -> Seen:
    order = order_of(bench, "probes:one", bug, tool="searched")
    bench.provider.control("searchable", what=f"{order.inputs['tag']}:one", drop_reply_after_effect=True)
    bench.provider.control("search", reject_before_effect=500, next=None)
    code = bench.live(order, planted(bug)).exit_code
    bench.provider.clear_faults()
    return code, counts(bench, order)


@dataclass(frozen=True)
class Shown:
    """A broken rule, the scene that shows it, and what is seen with the rule; anything else is seen without it."""

    bug: str
    scene: Scene
    with_it: Seen


SHOWN = [
    Shown("a_process_is_known_by_its_number_alone", a_number_is_taken_over, (0, None)),
    Shown("a_zombie_is_taken_for_alive", an_owner_is_a_zombie, (0, {"one": 1})),
    Shown("a_zombie_with_threads_is_taken_for_dead", only_the_first_thread_has_ended, (True, {"one": 1})),
    Shown("the_heart_stops_with_the_loop", a_loop_is_held_up_longer_than_its_lease, (0, True)),
    Shown("children_are_known_by_their_mark_alone", a_child_hides, (IN_DOUBT, 1)),
    Shown("the_quarantine_does_not_bind_people", a_person_is_too_quick, (False, 1)),
    Shown("children_are_not_awaited", a_signal_comes_while_a_child_sends, (False,)),
    Shown(
        "threads_of_an_async_tool_are_forgotten",
        one_that_lands_late("siblings:a_thread_goes_on", ""),
        (0, {"one": 1}),
    ),
    Shown("a_probe_is_asked_while_the_sender_lives", one_that_lands_late("probes:one", "overdue"), (0, {"one": 1})),
    Shown("a_late_return_is_thrown_away", a_late_answer, (0,)),
    Shown("a_cancel_reaches_the_dispatch", a_caller_that_loses_patience, (0, {"slow": 1, "next": 1})),
    Shown("a_key_expires_by_the_wall_clock_alone", a_clock_is_set_back, (IN_DOUBT, {"one": 1})),
    Shown("an_incomplete_listing_is_a_no", a_list_has_pages, (IN_DOUBT, 1)),
    Shown("one_no_of_a_probe_is_enough", a_search_misses_it_once, (0, {"one": 1})),
    Shown("a_refused_repetition_settles_the_first_request", a_repetition_is_turned_away, (IN_DOUBT, {"A": 1})),
    Shown("nobody_looks_again_after_a_believed_no", the_first_request_lands_last, (0, 1, [True])),
    Shown("nonsense_from_a_probe_is_a_no", a_probe_raises, (IN_DOUBT, {"one": 1})),
]


@pytest.mark.parametrize("shown", SHOWN, ids=[shown.bug for shown in SHOWN])
def test_each_broken_rule_is_seen(bench: Bench, shown: Shown) -> None:
    assert shown.scene(bench, None) == shown.with_it
    assert shown.scene(bench, shown.bug) != shown.with_it


def test_every_broken_rule_of_this_page_is_shown() -> None:
    here = {plant.name for plant in load().values() if "test_planted_owners.py" in plant.caught_by}
    assert here == {shown.bug for shown in SHOWN}
    assert {plant.area for plant in load().values() if plant.name in here} <= {"lease", "settle", "gateway"}
    assert load()["leases_are_short"].area == HELP
