"""Fences are counted per run, so that two lives of two runs may hold the same number: neither writes a row of the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import ToolFailed, tool
from tests.integration.engine_support import open_engine

pytestmark = pytest.mark.filterwarnings("ignore:perdure. dedupe_key:RuntimeWarning")


@pytest.mark.parametrize("lives_of_the_first", [1, 2])
def test_a_resume_does_not_reopen_the_failed_call_of_another_run(tmp_path: Path, lives_of_the_first: int) -> None:
    """The second run has ended with the failure of a call that a dedupe key has found in the first one."""
    sent: list[str] = []

    @tool(name="pay", side_effect_class="external")
    def pay(to: str) -> str:
        sent.append(to)
        raise ToolFailed("the card was declined", retry=False)

    def first(run: Any) -> Any:
        return run.call(pay, "a", dedupe_key="k")

    def second(run: Any) -> Any:
        return run.call(pay, "a", dedupe_key="k")

    with open_engine(tmp_path) as engine:
        assert engine.run(first, run_id="r1").status == "failed"
        for _ in range(lives_of_the_first - 1):
            assert engine.resume("r1", main=first).status == "failed"
        assert engine.run(second, run_id="r2").status == "failed"
        before = [dict(call) for call in engine.calls("r1")]
        again = engine.resume("r2", main=second)
        assert (again.status, len(sent)) == ("failed", lives_of_the_first)
        assert [dict(call) for call in engine.calls("r1")] == before
        assert engine.verify().ok
