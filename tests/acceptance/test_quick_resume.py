"""The four-step job: killed in its sleep, killed after it has written, resumed from another folder; one line in the end."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

from tests.acceptance.cli_support import Desk, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples/quick_resume"


def test_killed_twice_and_resumed_from_elsewhere_it_has_written_one_line(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "here")
    for name in ("quick_resume.py", "quick_resume.job.yaml"):
        shutil.copy(EXAMPLE / name, desk.folder / name)
    workspace = desk.folder / ".perdure/workspaces/quick"
    log = workspace / "run.log"
    first = desk.start("run", "quick_resume.job.yaml", "-i", "seconds=1", "--run-id", "quick")
    wait_for(lambda: log.exists() and "sleep running" in log.read_text(), "the job sleeps")
    first.send_signal(signal.SIGKILL)
    first.communicate()
    second = desk.type("resume", "quick", env={"PERDURE_TEST_CRASH_AFTER_TOOL": "stamp"})
    assert second.code == 137
    line = (workspace / "restart.sh").read_text().splitlines()[-1]
    elsewhere = Desk(tmp_path / "elsewhere")
    third = elsewhere.paste(line)
    assert third.code == 0, third
    assert len((workspace / "work_products/resume_test.txt").read_text().splitlines()) == 1
    report = json.loads((workspace / "job_completion_quick.json").read_text())
    assert (report["status"], report["result"]) == ("succeeded", "DONE")
    assert [life["how"] for life in report["lives"]] == ["crashed", "crashed", "succeeded"]
    assert [call["tool_name"] for call in report["settled"]["calls"]] == ["stamp"]
    assert list(elsewhere.folder.iterdir()) == []
    assert "has ended" in (workspace / "restart.sh").read_text()
