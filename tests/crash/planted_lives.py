"""Rules of cancels, crash loops and timers broken on purpose; each is shown in `test_planted_lives.py`."""

from typing import Any

from perdure.runtime import cancelling, pauses, runner
from tests.crash.planting import planting

SHOWN = "test_planted_lives.py::test_each_broken_rule_is_seen"


@planting("lease", SHOWN)
def a_cancel_ignores_the_sender_in_flight() -> None:
    """A run is cancelled over the head of the living process that drives it, which is in the middle of a send."""
    cancelling.is_driven = lambda store, row, now: False  # type: ignore[assignment]


@planting("lease", SHOWN)
def a_crash_loop_counts_explicit_resumes() -> None:
    """A person who resumes a run that crashes gets no life any more after the third."""
    honest = runner.claim

    def claim(around: Any, store: Any, run_id: str, **how: Any) -> Any:
        return honest(around, store, run_id, **{**how, "reopen": False})

    runner.claim = claim


@planting("gateway", SHOWN)
def a_timer_begins_anew_in_each_life() -> None:
    """The moment of a timer is counted from where each life came to it, and not from where the first did."""
    honest = pauses.sleep_request

    def sleep_request(door: Any, seconds: Any, until: Any) -> Any:
        request = honest(door, seconds, until)
        request.key = request.key._replace(args_hash=f"{request.key.args_hash}:{request.not_before}")
        return request

    pauses.sleep_request = sleep_request  # type: ignore[assignment]
