"""``perdure demo`` as a person runs it: real servers, real SIGKILLs; what the servers logged is read here once more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import perdure

LIE = """\
version: 1
rules:
  # The mail server knows nothing of keys: with this rule a lost mail is sent again, and arrives twice.
  - {tool: send_mail, replay_policy: REPLAY_IDEMPOTENT, key_ttl: 24h}
"""


@dataclass
class Demo:
    """One run of the demo in a process of its own."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def out(self) -> Path:
        return self.folder.with_suffix(".out")

    @property
    def err(self) -> Path:
        return self.folder.with_suffix(".err")

    def end(self) -> int:
        return self.process.wait(110)

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out.read_text("utf-8"))
        return found

    def said(self) -> str:
        return self.err.read_text("utf-8")

    def logged(self, server: str, event: str) -> list[dict[str, Any]]:
        lines = (self.folder / "world" / "logs" / f"{server}.jsonl").read_text("utf-8").splitlines()
        return [line for line in map(json.loads, lines) if line["event"] == event]

    def arrived(self) -> dict[str, int]:
        """Count by words of this test, not by those of the demo."""
        return {
            "uploads": sum(line["status"] == 200 for line in self.logged("s3", "put_object")),
            "mails": len(self.logged("mail", "mail")),
            "notices": len(self.logged("webhook", "notice")),
            "repeated notices": len(self.logged("webhook", "repeat")),
        }

    def lives(self) -> list[str]:
        with perdure.open(state_dir=self.folder) as engine:
            return [life["how"] for life in engine.details("demo")["lives"]]


Start = Callable[..., Demo]
ONCE = {"uploads": 1, "mails": 1, "notices": 1, "repeated notices": 0}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    begun: list[Demo] = []

    def begin(name: str, *flags: str) -> Demo:
        folder = tmp_path_factory.mktemp("demo") / name
        demo = Demo(folder, None)  # type: ignore[arg-type]
        with demo.out.open("wb") as out, demo.err.open("wb") as err:
            command = [sys.executable, "-m", "perdure", "demo", "--folder", str(folder), *flags]
            demo.process = subprocess.Popen(command, stdout=out, stderr=err, env=os.environ | {"PYTHONUTF8": "1"})
        begun.append(demo)
        return demo

    yield begin
    for demo in begun:
        demo.process.kill()
        demo.process.wait()


@pytest.fixture(scope="module")
def shows(start: Start, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Demo]:
    """Start those that run to their end side by side: most of their time is waiting."""
    lie = tmp_path_factory.mktemp("policy") / "lie.policy.yaml"
    lie.write_text(LIE, "utf-8")
    return {
        "plain": start("plain", "-o", "json"),
        "no probe": start("no-probe", "-o", "json", "--no-probe", "--kill-at", "mail"),
        "no kill": start("no-kill", "-o", "json", "--kill-at", "none"),
        "lie": start("lie", "-o", "json", "--kill-at", "mail", "--policy", str(lie)),
    }


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of living processes that name the folder, in their arguments or their environment."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            raw = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        words = raw.replace(b"\0", b" ").decode("utf-8", "replace")
        if str(folder) in words:
            found.append(words)
    return found


def test_killed_at_its_three_worst_moments_everything_arrives_once(shows: dict[str, Demo]) -> None:
    demo = shows["plain"]
    assert demo.end() == 0, demo.said()
    document = demo.document()
    assert {key: value for key, value in document.items() if key != "run"} == {
        "schema": "perdure.demo/v1",
        "kills": 3,
        "lives": 4,
        "reports": 1,
        "uploads": 1,
        "mails": 1,
        "notices": 1,
    }
    run = document["run"]
    assert (run["schema"], run["status"], run["attempt"]) == ("perdure.run/v1", "succeeded", 4)
    assert (run["duplicates_found"], run["unmet"], run["settled"]) == (0, 0, 1)
    assert demo.arrived() == ONCE
    assert demo.lives() == ["crashed", "crashed", "crashed", "succeeded"]
    assert demo.said().count("SIGKILL process") == 3
    for decision in ("it is there, with the same bytes", "it is there → not sent again"):
        assert decision in demo.said()
    asked = [line["path"] for line in demo.logged("site", "request")]
    assert len(set(asked)) >= 14 and "/private.html" not in asked
    report = Path(run["workspace"], "report.md").read_text("utf-8")
    assert report.count("\n## ") == 16 + 2 and "/errata.html: http: 404" in report
    assert Path(run["workspace"], "report.pdf").read_bytes().startswith(b"%PDF-")
    assert processes_of(demo.folder) == []


def test_without_a_mailbox_to_ask_the_mail_waits_for_a_person(shows: dict[str, Demo]) -> None:
    demo = shows["no probe"]
    assert demo.end() == 0, demo.said()
    document = demo.document()
    assert (document["kills"], document["lives"], document["mails"]) == (1, 3, 1)
    assert demo.arrived() == ONCE
    assert demo.lives() == ["crashed", "waiting (in_doubt)", "succeeded"]
    call = next(one for one in explained(demo) if one["tool_name"] == "send_mail")
    assert [item["says"] for item in call["evidence"] if item["kind"] == "verdict"] == ["happened"]
    assert json.loads(call["response"])["message_id"] == demo.logged("mail", "mail")[0]["message_id"]
    assert "exit code 7" in demo.said() and f"perdure resolve {call['tool_call_id']} --happened" in demo.said()


def explained(demo: Demo) -> list[dict[str, Any]]:
    with perdure.open(state_dir=demo.folder) as engine:
        return [engine.call(call["tool_call_id"]) for call in engine.calls("demo")]


def test_left_alone_it_needs_one_life(shows: dict[str, Demo]) -> None:
    demo = shows["no kill"]
    assert demo.end() == 0, demo.said()
    assert (demo.document()["kills"], demo.document()["lives"]) == (0, 1)
    assert demo.arrived() == ONCE


def test_a_policy_that_lies_about_the_mail_server_is_caught_by_the_count(shows: dict[str, Demo]) -> None:
    demo = shows["lie"]
    assert demo.end() == 1, demo.said()
    assert demo.document()["run"]["status"] == "succeeded"
    assert (demo.document()["mails"], demo.arrived()["mails"]) == (2, 2)
    assert "mails: 2, not 1" in demo.said()


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_everything_it_started(tmp_path: Path, by: signal.Signals) -> None:
    folder = tmp_path / "stopped"
    command = [sys.executable, "-m", "perdure", "demo", "--folder", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("page  1" in line for line in process.stderr)
        assert len(processes_of(folder)) >= 6  # the demo, the job, and the servers
        process.send_signal(by)
        assert "stopped" in process.stderr.read()
        assert process.wait(30) == 128 + by
    assert processes_of(folder) == []


def test_it_refuses_before_it_starts_anything(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("not the demo's")
    for flags, code, words in (
        (["--folder", str(tmp_path)], 2, "not an empty folder"),
        (["--kill-at", "lunch"], 2, "--kill-at lunch"),
        (["--kill-at", "0"], 2, "--kill-at 0"),
        (["--policy", str(tmp_path / "none.yaml")], 2, "no such file"),
        (["--frobnicate"], 2, "--frobnicate"),
    ):
        asked = subprocess.run(
            [sys.executable, "-m", "perdure", "demo", *flags], capture_output=True, text=True, check=False
        )
        assert (asked.returncode, asked.stdout) == (code, "")
        assert words in asked.stderr and "Traceback" not in asked.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_it_names_the_extra_that_is_missing() -> None:
    # None in sys.modules is how Python itself marks a module that cannot be had.
    program = "import sys; sys.modules['typst'] = None; from perdure.cli.main import main; sys.exit(main(['demo']))"
    asked = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert asked.returncode == 4
    assert "typst" in asked.stderr and "pip install 'perdure[demo]'" in asked.stderr


def test_a_built_package_carries_the_job_of_the_examples(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=root, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as package:
        for name in ("report.job.yaml", "report.policy.yaml", "report.py"):
            packed = package.read(f"perdure/demo/report_example/{name}")
            assert packed == (root / "examples" / "report" / name).read_bytes()
