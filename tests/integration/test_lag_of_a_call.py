"""How long a "no" may be wrong goes with the call: a person who says it from a process without the tool waits as long."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import CallContext, Probe, VerdictRefused, tool
from tests.integration.engine_support import open_engine
from tests.integration.test_doubts import SetClock

RULE = "version: 1\nrules:\n  - tool: send\n    probe_lag: 2m\n"


@pytest.mark.parametrize(
    ("declared", "policy", "lag_seconds"),
    [
        ({"probe_lag": "60s"}, False, 60),
        ({"probe_lag": "60s", "key_ttl": "1h"}, False, 60),
        ({}, True, 120),
        ({}, False, 10),
    ],
)
@pytest.mark.parametrize("cancelled", [False, True])
def test_a_no_waits_for_the_lag_of_the_tool_that_sent(
    tmp_path: Path, declared: dict[str, Any], policy: bool, lag_seconds: int, cancelled: bool
) -> None:
    clock = SetClock()
    rules = tmp_path / "send.policy.yaml"
    rules.write_text(RULE, "utf-8")

    @tool(name="send", side_effect_class="external", scope=["to"], max_attempts=1, **declared)
    def send(to: str, *, call: CallContext) -> str:
        raise ConnectionResetError

    @send.probe
    def find(call: CallContext) -> Probe:
        return Probe.unknown("the index is down")

    with open_engine(tmp_path, clock=clock, policies=[rules] if policy else []) as engine:
        assert engine.run(lambda run: run.call(send, "a"), run_id="r1").reason == "in_doubt"
    with open_engine(tmp_path, clock=clock) as elsewhere:
        # The question is asked again by a process that knows nothing of the tool.
        elsewhere._ledger.run(lambda store: store.connection.write("UPDATE approvals SET detail = '{}'", {}))
        if cancelled:
            elsewhere.cancel("r1")
        clock.moment += timedelta(seconds=lag_seconds - 2)
        with pytest.raises(VerdictRefused, match="may still be about to show it"):
            elsewhere.resolve("r1.1", "did_not_happen")
        clock.moment += timedelta(seconds=3)
        elsewhere.resolve("r1.1", "did_not_happen")
        assert [call["status"] for call in elsewhere.calls("r1")] == ["cancelled" if cancelled else "prepared"]


def test_a_tool_without_a_probe_leaves_nothing_to_wait_for(tmp_path: Path) -> None:
    @tool(name="send", side_effect_class="external", probe_lag="60s")
    def send(to: str) -> str:
        raise ConnectionResetError

    with open_engine(tmp_path) as engine:
        engine.run(lambda run: run.call(send, "a"), run_id="r1")
    with open_engine(tmp_path) as elsewhere:
        assert elsewhere.resolve("r1.1", "did_not_happen").status == "prepared"
