"""Rules of ownership, quarantine, suspension and probes broken on purpose; each is shown in `test_planted_owners.py`."""

import asyncio
import os
from dataclasses import replace
from typing import Any

from perdure.core import decide as deciding
from perdure.model.toolcall import CallStatus
from perdure.ports.clock import seconds_between
from perdure.ports.tool import Probe
from perdure.runtime import (
    async_runner,
    caller,
    claim,
    crew,
    doubts,
    ending,
    gateway,
    heartbeat,
    invoke,
    lease,
    recording,
    verdicts,
)
from perdure.runtime.heartbeat import Heartbeat
from tests.crash.planting import HELP, planting

SHOWN = "test_planted_owners.py::test_each_broken_rule_is_seen"
SHORT_LEASE_SECONDS = 0.6


@planting(HELP)
def leases_are_short() -> None:
    """A lease lasts a little over half a second, so that a test can wait until one is over."""
    for module in (heartbeat, claim):
        module.LEASE_SECONDS = SHORT_LEASE_SECONDS  # type: ignore[attr-defined]
    heartbeat.HEARTBEAT_SECONDS = SHORT_LEASE_SECONDS / 6
    claim.OTHER_HOST_MARGIN_SECONDS = 0.2  # type: ignore[attr-defined]


@planting(HELP)
def this_is_another_host() -> None:
    """The process takes itself for one of another machine, which shares nothing but the ledger."""
    lease._host = lambda: "elsewhere/pid:[1]"  # type: ignore[assignment]


def _liveness_by(alive: Any) -> None:
    honest = lease.liveness

    def wrong(owner: Any) -> Any:
        here = owner.host == lease._host() and owner.boot_id == lease._boot_id()
        return alive(owner, honest) if here else honest(owner)

    for module in (claim, doubts, verdicts):
        module.liveness = wrong  # type: ignore[attr-defined]


@planting("lease", SHOWN)
def a_process_is_known_by_its_number_alone() -> None:
    """Whatever process has the number of the owner now is taken for the owner."""
    _liveness_by(lambda owner, honest: lease.Liveness.ALIVE if _has_number(owner.pid) else honest(owner))


@planting("lease", SHOWN)
def a_zombie_is_taken_for_alive() -> None:
    """An owner that has died is waited for until its parent has collected it."""

    def alive(owner: Any, honest: Any) -> Any:
        found = lease._stat(owner.pid)
        same = found is not None and found.start_time == owner.start_time
        return lease.Liveness.ALIVE if same else honest(owner)

    _liveness_by(alive)


@planting("lease", SHOWN)
def a_zombie_with_threads_is_taken_for_dead() -> None:
    """A process whose first thread has ended is taken over while its other threads go on sending."""

    def alive(owner: Any, honest: Any) -> Any:
        found = lease._stat(owner.pid)
        return lease.Liveness.DEAD if found is not None and found.state == "Z" else honest(owner)

    _liveness_by(alive)


def _has_number(pid: int) -> bool:
    return os.path.isdir(f"/proc/{pid}")


@planting("lease", SHOWN)
def the_heart_stops_with_the_loop() -> None:
    """The lease is renewed by the agent's event loop, and is lost when the agent holds that up."""
    honest, enter = Heartbeat._renew, async_runner.run_async
    loops: list[Any] = []

    async def run_async(*args: Any) -> Any:
        loops.append(asyncio.get_running_loop())
        return await enter(*args)

    def renew(self: Any, life: Any, charged_seconds: float) -> None:
        async def beat() -> None:
            honest(self, life, charged_seconds)

        asyncio.run_coroutine_threadsafe(beat(), loops[-1]).result()

    Heartbeat._renew, async_runner.run_async = renew, run_async  # type: ignore[method-assign]


@planting("settle", SHOWN)
def the_quarantine_does_not_bind_people() -> None:
    """A person's "it did not happen" is taken while the sender may still send, without a word of force."""
    verdicts.quarantine_problem = lambda store, row, now: None


@planting("settle", SHOWN)
def children_are_known_by_their_mark_alone() -> None:
    """A child that was forked, or started with another environment, is not looked for."""
    lease._descends = lambda pid, owner, among: False
    lease._orphaned = lambda found, owner, among: False


@planting("settle", SHOWN)
def children_are_not_awaited() -> None:
    """A signal leaves the processes that a tool has started to themselves."""
    ending.end_children = lambda owner, since=None: []  # type: ignore[assignment]


@planting("settle", SHOWN)
def threads_of_an_async_tool_are_forgotten() -> None:
    """An async tool past its timeout is taken to have no sender, although a thread of it goes on."""
    crew.Crew.join = lambda self, work: None  # type: ignore[method-assign]


@planting("settle", SHOWN)
def a_probe_is_asked_while_the_sender_lives() -> None:
    """The probe's "no" is believed although the timed-out thread is still about to send."""
    honest = doubts.facts
    doubts.facts = lambda life, row, doubt: replace(honest(life, row, doubt), sender_alive=False, gone_seconds=99.0)


@planting("gateway", SHOWN)
def a_late_return_is_thrown_away() -> None:
    """What a sync tool brings back after its timeout is not its outcome."""

    def forget(life: Any, row: Any, doubt: Any) -> Any:
        return (yield gateway.Commit(lambda store: store.calls.get(row.call_no)))

    doubts.late_return = forget


@planting("gateway", SHOWN)
def a_cancel_reaches_the_dispatch() -> None:
    """A caller's cancellation is passed on to the send that it waits for."""

    async def serve(life: Any, door: Any, request: Any) -> Any:
        operation = life.operations.begin(request.frame)
        return await caller._spawn(life, door, request, operation)

    caller.serve = serve


@planting("settle", SHOWN)
def a_key_expires_by_the_wall_clock_alone() -> None:
    """A clock that was set back brings a key to life again which the provider has forgotten."""
    doubts.key_alive_seconds = lambda store, row, now: (
        None if row.key_expires_at is None else seconds_between(now, row.key_expires_at)
    )


@planting("settle", SHOWN)
def an_incomplete_listing_is_a_no() -> None:
    """The first page of a search says "not there", and that is believed."""
    honest = invoke.checked_probe

    def whole(answer: Any) -> Any:
        said = honest(answer)
        return replace(said, complete=True) if said.verdict == "not_happened" else said

    invoke.checked_probe = whole


@planting("settle", SHOWN)
def one_no_of_a_probe_is_enough() -> None:
    """The first "not there" is believed, although the provider's search is behind."""
    honest = gateway.decide

    def hasty(row: Any, facts: Any) -> Any:
        if row.status is CallStatus.IN_DOUBT and facts.negatives:
            return deciding.Step(deciding.Next.NOT_DONE, "planted")
        return honest(row, facts)

    gateway.decide = hasty


@planting("settle", SHOWN)
def a_refused_repetition_settles_the_first_request() -> None:
    """The same key is turned away at the door, and the request before it, whose answer was lost, counts as not done."""
    honest = recording.store_setback

    def store_setback(life: Any, *args: Any) -> Any:
        life.resent.clear()
        return honest(life, *args)

    recording.store_setback = store_setback


@planting("settle", SHOWN)
def nobody_looks_again_after_a_believed_no() -> None:
    """A first request that lands after the second one is never noticed."""
    recording.store_not_done = _without_note(recording.store_not_done)


def _without_note(honest: Any) -> Any:
    def store_not_done(life: Any, store: Any, row: Any) -> Any:
        found = honest(life, store, row)
        life.believed_noes.clear()
        return found

    return store_not_done


@planting("settle", SHOWN)
def nonsense_from_a_probe_is_a_no() -> None:
    """A probe that raises is taken for one that has found nothing."""
    invoke.failed_probe = lambda problem: Probe.not_happened(complete=True)
