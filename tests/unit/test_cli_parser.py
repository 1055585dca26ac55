"""What may be typed, and how little is loaded to find that out."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from perdure.cli.parser import NOUNS, parse, wanted_format
from perdure.model.errors import UsageError

OF_CONTRACT = {
    *("run", "resume", "fork", "runs ls", "runs show", "calls ls", "calls show", "calls explain", "inbox", "resolve"),
    *(
        "runs cancel",
        "runs export",
        "approve",
        "deny",
        "answer",
        "policy explain",
        "policy check",
        "policy test",
        "policy diff",
        "schema",
        "demo",
        "smoke",
        "crashtest",
        "db path",
    ),
    *("runs watch", "help", "doctor", "verify", "db check", "db backup", "db migrate", "db prune"),
}
LATER = (*("triggers ls", "schedules add", "worker"),)


def listed(help_text: str) -> set[str]:
    """Return the commands that a help text lists."""
    return set(re.findall(r"^    ([a-z]+)\b", help_text.partition("\ncommands:\n")[2], re.MULTILINE))


def help_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as left:
        parse([*words, "--help"])
    assert left.value.code == 0
    return capsys.readouterr().out


def test_help_lists_exactly_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    found: set[str] = set()
    for noun in listed(help_of(capsys)):
        verbs = listed(help_of(capsys, noun)) if noun != "demo" and NOUNS[noun] else set()
        found |= {f"{noun} {verb}" for verb in verbs} or {noun}
    assert found == OF_CONTRACT


@pytest.mark.parametrize("typed", LATER)
def test_commands_of_later_versions_do_not_exist(typed: str) -> None:
    with pytest.raises(UsageError, match=r"no such command '.*'; (did you mean '|there are: )") as refused:
        parse(typed.split())
    assert refused.value.exit_code == 2
    assert refused.value.next_command.endswith("--help")


@pytest.mark.parametrize(
    "typed",
    [
        "--state-dir s --store sqlite:///x -o json --debug --policy a --policy b runs ls",
        "runs ls --state-dir s --store sqlite:///x -o json --debug --policy a --policy b",
        "--state-dir=s --policy a runs --store=sqlite:///x -ojson ls --debug --policy b",
        "--state-dir other --policy a runs ls --policy=b --state-dir s --store sqlite:///x --output json --debug",
    ],
)
def test_global_flags_stand_before_and_after_the_command(typed: str) -> None:
    found = parse(typed.split())
    assert (found.state_dir, found.store, found.output, found.debug) == ("s", "sqlite:///x", "json", True)
    assert found.policy == ["a", "b"]
    assert wanted_format(typed.split()) == "json"


def test_defaults() -> None:
    found = parse(["runs", "ls"])
    assert (found.state_dir, found.store, found.output, found.debug, found.policy) == (None, None, "table", False, [])
    assert wanted_format(["runs", "ls", "-o"]) == "table"
    assert wanted_format(["runs", "-o", "xml"]) == "table"


def test_what_stands_around_demo_is_handed_on() -> None:
    found = parse(["-o", "json", "demo", "--kill-at", "mail", "--help"])
    assert found.rest == ["-o", "json", "--kill-at", "mail", "--help"]


@pytest.mark.parametrize(
    ("typed", "says", "same"),
    [
        ("resolve c --happened", "happened", None),
        ("resolve c --did-not-happen", "did_not_happen", None),
        ("resolve c --abandon", "abandon", None),
        ("resolve c --another", "another", None),
        ("resolve c --same", None, ""),
        ("resolve c --same r.1", None, "r.1"),
    ],
)
def test_verdicts(typed: str, says: str | None, same: str | None) -> None:
    found = parse(typed.split())
    assert (found.says, found.same) == (says, same)


def test_abbreviations_are_no_flags() -> None:
    with pytest.raises(UsageError, match="no such flag '--state'; did you mean '--state-dir'"):
        parse(["--state", "s", "runs", "ls"])
    with pytest.raises(UsageError, match="--state"):
        parse(["runs", "ls", "--state", "s"])


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom perdure.cli.main import main\nassert main(['--help']) == 0\n"
        "heavy = {'apsw', 'asyncio', 'pydantic', 're2', 'rfc8785', 'ruamel', 'perdure.engine', 'perdure.config'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stderr == "[]\n"
    assert found.stdout.startswith("usage: perdure")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from perdure import __version__

    with pytest.raises(SystemExit) as left:
        parse(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"perdure {__version__}\n"
