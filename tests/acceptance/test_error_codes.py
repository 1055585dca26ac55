"""Each error code is documented, and each really comes out of the command line or the library."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
import perdure.demo.command as demo_command
from perdure import PerdureError, ToolFailed, tool
from perdure.cli import help_cmd
from perdure.cli.failure import ENVIRONMENT_CODE, INTERNAL_CODE
from perdure.cli.main import main as command
from perdure.config.job import JobFile
from perdure.core.transitions import CallEvent, next_call_status
from perdure.demo import report_job
from perdure.demo.world.launch import World
from perdure.model.toolcall import CallStatus
from perdure.testing import FakeClock
from perdure.testing.smoke import lives
from tests.acceptance.cli_support import environment
from tests.docs.markdown import ROOT
from tests.integration import test_fingerprints as fingerprints
from tests.integration.canaries import canaries
from tests.integration.engine_support import Crash, live, open_engine
from tests.integration.store_support import NOW
from tests.integration.test_phases import Veto, reviewed
from tests.integration.trust_support import LEDGER, a_lived_in_ledger, meddle, send

SOURCES = sorted((ROOT / "src").rglob("*.py"))
FAMILIES_ONLY = {"PERDURE-110"}
"""Codes of classes that stand for several errors and are never raised themselves."""


def codes() -> set[str]:
    """Return every code that stands in the program."""
    return {code for path in SOURCES for code in re.findall(r"PERDURE-\d{3}\b", path.read_text("utf-8"))}


def test_no_code_is_without_a_text_and_no_text_without_a_code() -> None:
    assert set(help_cmd.entries()) == codes()


def test_every_entry_answers_every_question_and_names_a_command_that_works() -> None:
    for entry in help_cmd.entries().values():
        for text in (entry.title, entry.happened, entry.why, entry.safe, entry.do, entry.example):
            assert len(text) > 10, entry.code
        assert entry.example.startswith(("perdure ", "pip ", "run.")), entry.code


def test_help_is_told_for_every_code_and_topic(capsys: pytest.CaptureFixture[str]) -> None:
    for subject in (*help_cmd.entries(), *help_cmd.topics(), "405", "perdure-405"):
        assert command(["help", subject]) == 0
    out = capsys.readouterr().out
    assert command(["help"]) == 0
    listed = capsys.readouterr().out
    for code in codes():
        assert f"{code}: " in out
        assert code in listed


def test_the_exit_codes_that_help_tells_are_those_of_the_errors() -> None:
    told = {int(line.split(" ", 1)[0]) for line in help_cmd.topics()["exit-codes"].text.splitlines()}
    assert told == {*range(12), 130, 143}
    assert {item.exit_code for item in _all(PerdureError)} <= told


def _all(kind: type[PerdureError]) -> set[type[PerdureError]]:
    return {kind}.union(*(_all(sub) for sub in kind.__subclasses__()))


# --- each code is reached --------------------------------------------------------------------------------------------

Scenario = Callable[[Path], Any]
SCENARIOS: dict[str, Scenario] = {}


def reaches(*found: str) -> Callable[[Scenario], Scenario]:
    """Say which codes a scenario is to end in."""

    def keep(scenario: Scenario) -> Scenario:
        for code in found:
            SCENARIOS[code] = scenario
        return scenario

    return keep


def typed(*words: str) -> Scenario:
    """Return a scenario in which somebody types a command in a folder with a program and a ledger."""
    return lambda folder: command(["-o", "json", "--state-dir", str(folder / "state"), *words])


def raising(main: Callable[[Any], Any], **options: Any) -> Scenario:
    """Return a scenario in which ``main`` meets the error, and hands it on."""

    def scenario(folder: Path) -> None:
        met: list[PerdureError] = []

        def outer(run: Any) -> None:
            try:
                main(run)
            except PerdureError as problem:
                met.append(problem)

        live(folder, outer, **options)
        raise met[0] if met else AssertionError("nothing was raised")

    return scenario


def apart(scenario: Scenario) -> Scenario:
    """Return a scenario with a ledger of its own, in which nothing has happened."""
    return lambda folder: scenario(folder / "apart")


@tool(name="refuses", side_effect_class="external")
def refuses() -> None:
    """Say for certain that nothing happened."""
    raise ToolFailed("no", retry=False)


def _of_one_name(run: Any) -> None:
    @tool(name="send", side_effect_class="external", scope=["to"])
    def another(to: str) -> str:
        return to

    run.call(send, to="ann")
    run.call(another, to="bob")


def _twice(run: Any) -> None:
    run.call(send, to="ann", dedupe_key="k")
    run.call(send, to="bob", dedupe_key="k")


SCENARIOS |= {
    "PERDURE-111": apart(raising(lambda run: refuses())),
    "PERDURE-115": apart(raising(_twice)),
    "PERDURE-120": lambda folder: send("ann"),
    "PERDURE-122": apart(raising(lambda run: run.call(send, to=object()))),
    "PERDURE-121": apart(raising(_of_one_name)),
    "PERDURE-131": typed("run", "nowhere.job.yaml"),
    "PERDURE-140": typed("runz"),
    "PERDURE-141": typed("runs", "show", "nothing"),
    "PERDURE-160": typed("resolve", "r1.1", "--did-not-happen"),
    "PERDURE-190": lambda folder: next_call_status(CallStatus.SUCCEEDED, CallEvent.DISPATCH),
    "PERDURE-401": lambda folder: perdure.open("postgresql://127.0.0.1/x"),
    "PERDURE-601": lambda folder: World(folder, (), 1.0).site_url,
}


@reaches("PERDURE-100")
def leaves_by_itself(folder: Path) -> int:
    """An agent that leaves the process."""
    (folder / "leaver.py").write_text("def main(run):\n    raise SystemExit(3)\n", "utf-8")
    return typed("run", str(folder / "leaver.py:main"))(folder)


@reaches("PERDURE-112")
def denied(folder: Path) -> None:
    """A call that a person denies, and that its program asks for again."""

    @tool(name="wire", side_effect_class="external", approval="always")
    def wire(cents: int) -> str:
        return "wired"

    live(folder / "d", lambda run: wire(1))
    with open_engine(folder / "d") as engine:
        engine.deny(engine.inbox()[0][1].id, reason="too much")
    raising(lambda run: wire(1), resume=True)(folder / "d")


@reaches("PERDURE-113")
def challenged(folder: Path) -> None:
    """Other words for the same effect in a later life, by a program that wants to be told."""

    with_words = mailer_of_words()

    def first(run: Any) -> None:
        run.call(with_words, to="ann", body="as it was")
        raise Crash

    live(folder / "c", first)

    def second(run: Any) -> None:
        run.call(with_words, to="ann", body="reworded", on_challenge="raise")

    def outer(run: Any) -> None:
        try:
            second(run)
        except perdure.PerdureError as problem:
            met.append(problem)

    met: list[PerdureError] = []
    live(folder / "c", outer, resume=True)
    raise met[0]


def mailer_of_words() -> Any:
    """Return a tool that sends in some words."""

    @tool(name="deliver", side_effect_class="external", scope=["to"])
    def changed(to: str, body: str = "") -> str:
        return to

    return changed


@reaches("PERDURE-114")
def abandoned(folder: Path) -> None:
    """A doubt that a person gives up."""
    with open_engine(folder) as engine:
        engine.resolve("r1.5", "abandon")
    raising(lambda run: send("lost"), resume=True)(folder)


@reaches("PERDURE-130")
def another_specification(folder: Path) -> None:
    """Other inputs under a known id."""
    with open_engine(folder) as engine:
        engine.run(lambda run: None, inputs={"a": 1}, run_id="r2")


@reaches("PERDURE-132")
def too_late(folder: Path) -> None:
    """A call after the deadline, which passes while the agent is at work."""
    clock = FakeClock("2026-11-22T10:00:00Z")
    met: list[PerdureError] = []

    def main(run: Any) -> None:
        clock.advance(days=2)
        try:
            send("ann")
        except PerdureError as problem:
            met.append(problem)

    with open_engine(folder / "late", clock=clock) as engine:
        job = JobFile("late", "python", "x:main", folder / "x.job.yaml", deadline="2026-11-23T10:00:00.000000Z")
        engine._open_job = lambda *_: main  # the agent is this function, the deadline comes with a job file
        engine.run(job, run_id="late")
    raise met[0]


@reaches("PERDURE-134")
def changed(folder: Path) -> None:
    """A job that stops on a change, and whose agent was changed."""
    (folder / "changing").mkdir()
    path = fingerprints.job(folder / "changing", "stop")
    sys.modules.pop("letters", None)
    with open_engine(folder / "changing") as engine:
        fingerprints.start(engine, path)
        fingerprints.change_the_agent(folder / "changing")
        try:
            engine.resume("r1")
        finally:
            sys.modules.pop("letters", None)


@reaches("PERDURE-150")
def owned(folder: Path) -> None:
    """A second life beside a living one."""

    def main(run: Any) -> None:
        with open_engine(folder) as other:
            try:
                other.resume("twin", main=main)
            except PerdureError as problem:
                met.append(problem)

    met: list[PerdureError] = []
    with open_engine(folder) as engine:
        engine.run(main, run_id="twin")
    raise met[0]


@reaches("PERDURE-151")
def taken_over(folder: Path) -> None:
    """Another owner takes the run in the middle of a life."""

    def main(run: Any) -> None:
        meddle(folder, "UPDATE runs SET lease_fence = lease_fence + 1 WHERE run_id = 'taken'")
        send("ann")

    with open_engine(folder) as engine:
        engine.run(main, run_id="taken")


@reaches("PERDURE-152")
def cancelled(folder: Path) -> None:
    """A cancelled run is resumed."""
    with open_engine(folder) as engine:
        engine.cancel("r1")
        engine.resume("r1", main=lambda run: None)


@reaches("PERDURE-153")
def vetoed(folder: Path) -> None:
    """A critic that holds a run back, and a person who agrees."""
    met: list[PerdureError] = []
    error = PerdureError

    def agent(run: Any) -> None:
        try:
            with run.step("plan", phase="plan"):
                pass
            with run.step("send", phase="send"):
                pass
        except error as problem:  # a name of this module is none of an agent's that was given a critic
            met.append(problem)

    main = reviewed(agent, lambda view: Veto("too thin"))
    assert live(folder / "veto", main).reason == "question"
    with open_engine(folder / "veto") as engine:
        engine.answer(engine.inbox()[0][1].id, "stop")
    live(folder / "veto", main)
    raise met[0]


@reaches("PERDURE-201", "PERDURE-203", "PERDURE-204", "PERDURE-205", "PERDURE-206", "PERDURE-207", "PERDURE-208")
@reaches("PERDURE-202", "PERDURE-209", "PERDURE-210")
def bad_policies(folder: Path) -> int:
    """Every mistake that a policy file can hold."""
    wrong = {
        "a": "version: 1\nrules:\n  - {tool: x, aproval: always}\n  - {tool: y, side_effect_class: huge}\n"
        "  - {tool: z, timeout: soon}\n  - {tool_name_regex: '(?=x)'}\n  - {tool: v, approval: {when: {a: '>x y'}}}\n"
        "  - {tool: u, replay_policy: REPLAY_IDEMPOTENT}\n  - {side_effect_class: local}\n",
        "b": "version: 1\nrules: [\n",
    }
    for name, text in wrong.items():
        (folder / name).write_text(text, "utf-8")
    return sum(command(["policy", "check", str(folder / name), "-o", "json"]) for name in ("a", "b", "nowhere"))


@reaches(ENVIRONMENT_CODE)
def nowhere_to_stand(folder: Path) -> int:
    """A working directory that somebody has removed."""
    (folder / "gone").mkdir()
    os.chdir(folder / "gone")
    (folder / "gone").rmdir()
    return command(["db", "path", "-o", "json"])


@reaches("PERDURE-402")
def from_the_future(folder: Path) -> None:
    """A ledger that says that it was made by a later version."""
    meddle(folder, f"INSERT INTO schema_migrations VALUES (99, 'later', 'x', '{NOW}')")
    open_engine(folder)


@reaches("PERDURE-403")
def no_room(folder: Path) -> None:
    """A database that may not grow any more."""

    def main(run: Any) -> None:
        pages = engine._ledger.read(lambda s: next(s.connection.rows("PRAGMA page_count", {}))[0])
        engine._ledger.read(lambda s: list(s.connection.rows(f"PRAGMA max_page_count = {pages}", {})))
        for number in range(50):
            run.memo(f"m{number}", str.ljust, "x", 60_000)

    with open_engine(folder) as engine:
        engine.run(main, run_id="full")


@reaches("PERDURE-404")
def a_rule_of_somebody_else(folder: Path) -> None:
    """A trigger that another program has put into the ledger."""
    meddle(folder, "CREATE TRIGGER mine BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'closed'); END")
    with open_engine(folder) as engine:
        engine.run(lambda run: None, run_id="new")


@reaches("PERDURE-405")
def a_flipped_bit(folder: Path) -> None:
    """A byte of a page that is not what was written."""
    content = bytearray((folder / LEDGER).read_bytes())
    content[content.rindex(b"sent to bob")] ^= 1
    (folder / LEDGER).write_bytes(content)
    with open_engine(folder) as engine:
        engine.calls()


@reaches(INTERNAL_CODE)
def a_row_that_nobody_could_have_written(folder: Path) -> int:
    """A ledger that somebody has changed in a way that is not foreseen."""
    meddle(folder, "UPDATE runs SET policies_json = '{' WHERE run_id = 'r2'")
    return typed("runs", "show", "r2")(folder)


@reaches("PERDURE-406")
def the_key_is_gone(folder: Path) -> None:
    """A stored value in which there was a secret, and the ledger's key was lost."""

    def main(run: Any) -> None:
        run.memo("token", str, canaries()[0].text)
        raise Crash

    live(folder / "key", main)
    next((folder / "key").rglob("redaction.key")).unlink()
    raising(lambda run: run.memo("token", str, canaries()[0].text), resume=True)(folder / "key")


@reaches("PERDURE-604")
def no_time(folder: Path) -> int:
    """A machine on which a life of the smoke test does not end in time."""
    before, lives._LONGEST_LIFE_SECONDS = lives._LONGEST_LIFE_SECONDS, 0.001
    try:
        return command(["smoke", "--folder", str(folder / "smoke"), "-o", "json"])
    finally:
        lives._LONGEST_LIFE_SECONDS = before


@reaches("PERDURE-407")
def pruned(folder: Path) -> None:
    """A failed run whose bodies were removed is resumed."""

    def main(run: Any) -> None:
        send("ann")
        raise Crash

    with open_engine(folder) as engine:
        assert engine.run(main, run_id="r3").status == "failed"
    assert typed("db", "prune", "--older-than", "0s")(folder) == 0
    with open_engine(folder) as engine:
        engine.resume("r3", main=main)


@reaches("PERDURE-602")
def no_example(folder: Path) -> None:
    """An installation without the demo's job."""
    before, report_job.JOB_NAME = report_job.JOB_NAME, "gone.job.yaml"
    try:
        report_job.job_file()
    finally:
        report_job.JOB_NAME = before


@reaches("PERDURE-603")
def no_demo(folder: Path) -> int:
    """An installation without a package of the demo."""
    before, demo_command._NEEDED = demo_command._NEEDED, ("a_package_that_nobody_has",)
    try:
        return command(["demo", "-o", "json", "--folder", str(folder / "demo")])
    finally:
        demo_command._NEEDED = before


ELSEWHERE = {
    "PERDURE-133": "test_crashtest.py::test_without_a_value_for_a_stand_in_nothing_is_run",
    "PERDURE-605": "test_crashtest.py::test_a_job_that_never_worked_is_not_judged",
}
"""Codes that a whole crash test reaches, in tests of real processes."""


def test_each_code_has_a_scenario() -> None:
    assert codes() - FAMILIES_ONLY == {*SCENARIOS, *ELSEWHERE}
    for code, name in ELSEWHERE.items():
        file, _, test = name.partition("::")
        body = (Path(__file__).parent / file).read_text("utf-8").partition(f"def {test}(")[2].partition("\ndef ")[0]
        assert f'"{code}"' in body, name
    for code in FAMILIES_ONLY:
        assert not [path for path in SOURCES if "raise CallError(" in path.read_text("utf-8")], code


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ledger in which much has happened; to be copied."""
    folder = tmp_path_factory.mktemp("lived-in")
    a_lived_in_ledger(folder)
    return folder


@pytest.mark.parametrize("code", sorted(SCENARIOS))
@pytest.mark.filterwarnings("ignore")
def test_each_code_is_reached(
    code: str, lived_in: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(lived_in, folder)
    monkeypatch.chdir(tmp_path)
    met: PerdureError | None = None
    try:
        SCENARIOS[code](folder)
    except PerdureError as problem:
        met = problem
    said = capsys.readouterr()
    if met is not None:
        assert met.code == code, met
        assert met.message
        assert met.safe
        assert met.next_command
    else:
        assert code in said.err, said
        assert "Traceback" not in said.err
        main_code = code if not "PERDURE-202" <= code <= "PERDURE-210" else "PERDURE-201"
        assert f"  more: perdure help {main_code}" in said.err


# --- an error that a script does not catch ---------------------------------------------------------------------------

SCRIPT = """
import perdure
perdure.run(lambda run: None, inputs={"a": 1}, run_id="x")
try:
    perdure.run(lambda run: None, inputs={"a": 2}, run_id="x")
except perdure.SpecMismatch:
    print("caught")
perdure.run(lambda run: None, inputs={"a": 3}, run_id="x")
"""


def test_a_script_that_does_not_catch_an_error_ends_plainly_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    argv = [sys.executable, "script.py"]
    said = subprocess.run(argv, cwd=tmp_path, env=environment({}), capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (2, "caught\n")
    assert "Traceback" not in said.stderr
    for line in ("error[PERDURE-130]: run x exists with another specification:", "  safe: The existing run"):
        assert line in said.stderr
    assert said.stderr.splitlines()[-1] == "  more: perdure help PERDURE-130"
