"""A word that is of the wrong kind is told as what it is, and what is to be typed instead works."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure import tool
from perdure.cli.main import main as command_line
from perdure.cli.parser import NOUNS
from perdure.core import doctor
from perdure.model.errors import StorageFault
from perdure.store.modes import make_folder
from perdure.store.sqlite.faults import fault_of
from tests.integration.engine_support import open_engine


@tool(side_effect_class="external", approval="always")
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@dataclass
class Desk:
    """A ledger in which commands are typed in this process."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    questions: dict[str, str] = field(default_factory=dict[str, str])

    def type(self, *words: str) -> tuple[int, str, str]:
        code = command_line([*words, "--state-dir", str(self.folder / "state")])
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def told(self, text: str) -> tuple[int, str, str]:
        """Return exit code, sentence and next line of an error."""
        for run_id, question in self.questions.items():
            text = text.replace(f"Q_{run_id}", question)
        code, _, err = self.type(*shlex.split(text))
        lines = err.splitlines()
        flags = f" --state-dir {self.folder / 'state'}"
        return code, lines[0].partition("]: ")[2], lines[2].removeprefix("  next: ").replace(flags, "")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("words")
    with open_engine(folder) as engine:
        engine.run(lambda _run: 1, run_id="done")
        asked = {name: engine.run(lambda _run: pay(5), run_id=name).waiting_for[0].id for name in ("week1", "week2")}
    return folder, asked


@pytest.fixture
def desk(made: tuple[Path, dict[str, str]], capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(made[0], capsys, made[1])


@pytest.mark.parametrize(
    ("typed", "says", "next_line"),
    [
        ("runs show week1.1", "'week1.1' is a call of run week1", "perdure runs show week1   # or: perdure calls show week1.1"),
        ("resume week1.1", "'week1.1' is a call of run week1", "perdure runs show week1"),
        ("runs show Q_week1", "is a question of run week1", "perdure inbox week1"),
        ("calls show week1", "'week1' is a run; its calls are week1.1 and so on", "perdure calls ls week1"),
        ("calls explain @last", "'@last' is a run; its calls are week2.1", "perdure calls ls week2"),
        ("resolve Q_week1 --happened", "is a question of run week1", "perdure inbox week1   # or: perdure calls show week1.1"),
        ("calls show week1.9", "there is no call 'week1.9'; run week1 has 1", "perdure calls ls week1"),
        ("approve week1", "'week1' is a run, and no question", "perdure inbox week1"),
        ("deny week1.1 --reason x", "'week1.1' is a call of run week1, and no question", "perdure inbox week1"),
        ("answer week2 yes", "'week2' is a run, and no question", "perdure inbox week2"),
        ("runs show WEEK1", "no run begins with 'WEEK1'; did you mean 'week1'?", "perdure runs ls"),
        ("runs show doen", "no run begins with 'doen'; did you mean 'done'?", "perdure runs ls"),
        ("runs show nowhere", "no run begins with 'nowhere'", "perdure runs ls"),
        ("runs show week", "several runs begin with 'week': week2, week1", "perdure runs ls"),
        ("runs show ''", "the id of a run is empty: give its id, a unique prefix of it, or @last", "perdure runs ls"),
    ],
)  # fmt: skip
def test_an_id_of_the_wrong_kind_is_told_as_what_it_is(desk: Desk, typed: str, says: str, next_line: str) -> None:
    code, said, offered = desk.told(typed)
    assert (code, said.endswith(says) or said.startswith(says)) == (3, True), said
    assert offered.startswith(next_line), offered
    assert desk.type(*shlex.split(offered, comments=True)[1:])[0] == 0


@pytest.mark.parametrize(
    ("typed", "says", "next_line"),
    [
        ("runs", "which command of 'runs'? ls, show, watch, cancel, export", "perdure runs --help"),
        ("runs watch done --since abc", "'abc' is no cursor", "perdure runs watch --help"),
        ("runs ls --since 3x", "since '3x': neither a duration", "perdure runs ls --help"),
        ("resolve week1.1 --happened --result {", "--result: '{' is no JSON value", "perdure resolve --help"),
        ("help runs nope", "no such command 'runs nope'", "perdure runs --help"),
        ("inbox --jsno", "unrecognized arguments: --jsno", "perdure inbox --help"),
    ],
)
def test_the_help_that_is_offered_is_that_of_the_command(desk: Desk, typed: str, says: str, next_line: str) -> None:
    code, said, offered = desk.told(typed)
    assert (code, said.startswith(says), offered) == (2, True, next_line), said
    assert "did you mean" not in said


@pytest.mark.parametrize("names", [(noun, verb) for noun, verbs in NOUNS.items() for verb in verbs])
def test_help_on_a_verb_is_what_its_help_flag_prints(names: tuple[str, str], desk: Desk) -> None:
    code, told, _ = desk.type("help", *names)
    assert (code, told.startswith(f"usage: perdure {' '.join(names)} ")) == (0, True)
    assert told == desk.type(*names, "--help")[1]
    document = json.loads(desk.type("help", *names, "-o", "json")[1])
    assert (document["schema"], document["text"]) == ("perdure.help_topic/v1", told)


def test_the_list_of_help_names_every_command(desk: Desk) -> None:
    document = json.loads(desk.type("help", "-o", "json")[1])
    assert {line.split()[0] for line in document["commands"]} == set(NOUNS)
    assert "and on the commands: run, resume, " in desk.type("help")[1]


def test_several_answers_are_said_to_be_kept_where_one_resume_cannot_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_engine(tmp_path) as engine:
        asked = [engine.run(lambda _run: pay(5), run_id=name).waiting_for[0].id for name in ("a", "b")]
    code, _, said = Desk(tmp_path, capsys).type("approve", *asked, "--resume")
    assert (code, "  safe: The answers are kept; do not give them again. " in said) == (2, True), said
    assert f"  next: perdure --state-dir {tmp_path / 'state'} resume --all" in said


def test_a_line_that_is_printed_beside_an_answer_reaches_the_same_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @tool(side_effect_class="external", name="lose")
    def lose() -> None:
        """Lose the outcome."""
        raise RuntimeError("lost")

    with open_engine(tmp_path) as engine:
        assert engine.run(lambda _run: lose(), run_id="r1").reason == "in_doubt"
    desk = Desk(tmp_path, capsys)
    _, _, said = desk.type("resolve", "r1.1", "--happened")
    line = next(line for line in said.splitlines() if line.startswith("no --result was given"))
    offered = "perdure " + line.partition("perdure ")[2].replace("JSON", "5")
    assert command_line(shlex.split(offered)[1:]) == 0


def test_a_differing_specification_is_told_key_by_key_and_a_fork_shows_how_it_gets_on(
    tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    (tmp_path / "wrong_words_agent.py").write_text("def main(run): return 1\ndef other(run): return 2\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    desk = Desk(tmp_path, capsys)
    assert desk.type("run", "wrong_words_agent.py:main", "--run-id", "r1")[0] == 0
    code, out, said = desk.type("run", "wrong_words_agent.py:other", "-i", "a=1", "--run-id", "r1", "-o", "json")
    assert code == 2
    assert json.loads(out)["differences"] == [
        {"key": "agent", "stored": "wrong_words_agent.py:main", "given": "wrong_words_agent.py:other"},
        {"key": "inputs", "stored": {}, "given": {"a": 1}},
    ]
    assert '  agent: stored "wrong_words_agent.py:main", given "wrong_words_agent.py:other"' in said
    for flag, shown in (((), True), (("-q",), False)):
        code, _, said = desk.type("fork", "r1", *flag)
        assert (code, " began in process " in said) == (0, shown), said


def test_a_failed_run_whose_bodies_are_gone_offers_no_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def bad(_run: Any) -> None:
        raise ValueError("bad")

    with open_engine(tmp_path) as engine:
        engine.run(bad, run_id="bad")
        engine.prune(older_than=0)
        assert (engine.outcome("bad").way_on, engine.outcome("bad").error_said) == ("", "ValueError")
    desk = Desk(tmp_path, capsys)
    _, out, _ = desk.type("runs", "show", "bad", "-o", "json")
    assert json.loads(out)["resume_command"] is None
    assert "error      ValueError\n" in desk.type("runs", "show", "bad")[1]


@pytest.mark.parametrize("kind", ["ValueError", "GeneratorExit"])
def test_whatever_an_agent_raises_is_told_without_a_traceback(
    tmp_path: Path, capsys: Any, monkeypatch: Any, kind: str
) -> None:
    (tmp_path / f"raises_{kind}.py").write_text(f"def main(run): raise {kind}('no file \\udcff')\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    desk = Desk(tmp_path, capsys)
    code, out, said = desk.type("run", f"raises_{kind}.py:main", "--run-id", "r1", "-o", "json")
    assert (code, "Traceback" in said, "internal error" in said) == (1, False, False), said
    assert r"no file \udcff" in said
    if kind == "ValueError":
        assert json.loads(out)["error"]["detail"].startswith(r"no file \udcff")
    else:
        assert json.loads(out)["safe"] == "The run is interrupted, not ended."
        assert desk.type("runs", "cancel", "r1")[0] == 0


# --- words that have a meaning, and none here --------------------------------------------------------------------


def test_forever_is_no_age_of_a_run(desk: Desk) -> None:
    code, said, _ = desk.told("db prune --older-than forever --dry-run")
    assert (code, said) == (2, "older_than: no run ended for ever ago; write something like 30d")


def test_what_cannot_be_granted_is_not_offered_again(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    (tmp_path / "wrong_grants.py").write_text("def main(run): raise ValueError('bad')\n", "utf-8")
    text = "name: g\nagent: {python: 'wrong_grants:main'}\nbudgets: {max_tool_calls: 5}\n"
    (tmp_path / "g.job.yaml").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    desk = Desk(tmp_path, capsys)
    assert desk.type("run", "g.job.yaml", "--run-id", "r1")[0] == 1
    for grant, offered in (
        ("deadline=+2h", "perdure resume r1"),
        ("tokens=5", "perdure resume r1"),
        ("calls=x", "perdure resume r1 --grant calls=…"),
        ("callz=5", "perdure resume r1 --grant calls=…"),
    ):
        assert desk.told(f"resume r1 --grant {grant}")[::2] == (2, offered)


def test_a_program_that_cannot_be_loaded_is_told_with_its_line_and_leaves_the_run_untouched(
    tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    program = tmp_path / "wrong_program.py"
    program.write_text("def main(run): raise ValueError('bad')\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    desk = Desk(tmp_path, capsys)
    assert desk.type("run", "wrong_program.py:main", "--run-id", "r1")[0] == 1
    sys.modules.pop("wrong_program")
    for text, place in (
        ("def main(:\n", "wrong_program.py:1:10: "),
        ("def main(run): ...\nx = [\n  1 / 0]\n", "wrong_program.py:3:3: "),
    ):
        program.write_text(text, "utf-8")
        code, out, said = desk.type("resume", "r1", "-o", "json")
        assert (code, said.splitlines()[0].startswith(f"error[PERDURE-131]: {place}agent: cannot load")) == (2, True), (
            said
        )
        assert "  safe: The run is untouched, and nothing was sent." in said
        assert json.loads(out)["errors"][0]["line"] == int(place.split(":")[1])
    assert json.loads(desk.type("runs", "show", "r1", "-o", "json")[1])["attempt"] == 1


# --- places that cannot be written -------------------------------------------------------------------------------


def test_a_ledger_that_may_not_be_written_is_told_as_that(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    apsw.Connection(str(path)).execute("CREATE TABLE t(x)")
    reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    with pytest.raises(apsw.ReadOnlyError) as caught:
        reader.execute("INSERT INTO t VALUES (1)")
    told = fault_of(str(path), caught.value)
    assert isinstance(told, StorageFault)
    assert told.message.startswith(f"the ledger {path} may not be written: ")
    assert told.next_command == f"let this user write to it and in {tmp_path}, and type the same command again"


def test_a_folder_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(Exception, match="cannot be made") as caught:
        make_folder(tmp_path / "file" / "state")
    assert "--state-dir DIR" in getattr(caught.value, "next_command", "")


def test_doctor_does_not_call_a_folder_good_that_takes_no_file() -> None:
    found = doctor.fsync([], "ext4")
    assert (found.level, found.means) == (
        doctor.Level.BAD,
        "no run can be recorded: none is started, and none is gone on with",
    )
