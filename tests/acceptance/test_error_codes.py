"""Each error code is documented, and each really comes out of the command line or the library."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import PerdureError
from perdure.cli import help_cmd
from perdure.cli.main import main as command
from tests.acceptance import error_scenarios_store  # noqa: F401 - it adds its scenarios to the table
from tests.acceptance.cli_support import environment
from tests.acceptance.error_scenarios import SCENARIOS
from tests.docs.markdown import ROOT
from tests.integration.trust_support import a_lived_in_ledger

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


def test_a_script_says_no_secret_of_its_environment_with_its_error(tmp_path: Path) -> None:
    secret = "no-run-is-called-like-this-4711"
    script = tmp_path / "script.py"
    script.write_text("import os, perdure\nperdure.run(lambda run: 1, run_id='? ' + os.environ['BUILD_TOKEN'])\n")
    environ = {**os.environ, "BUILD_TOKEN": secret, "PERDURE_HOME": str(tmp_path / "state")}
    ended = subprocess.run([sys.executable, script], env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "error[PERDURE-131]" in ended.stderr
    assert secret not in ended.stderr


def test_a_script_that_does_not_catch_an_error_ends_plainly_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    argv = [sys.executable, "script.py"]
    said = subprocess.run(argv, cwd=tmp_path, env=environment({}), capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (2, "caught\n")
    assert "Traceback" not in said.stderr
    for line in ("error[PERDURE-130]: run x exists with another specification:", "  safe: The existing run"):
        assert line in said.stderr
    assert said.stderr.splitlines()[-1] == "  more: perdure help PERDURE-130"
