"""Whatever is typed, a command ends with a code of the table and without a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.cli.main import main as command
from perdure.cli.parser import NOUNS
from tests.integration.trust_support import a_lived_in_ledger

LOOKING = ("runs", "calls", "inbox", "verify", "help", "policy", "resolve", "approve", "deny", "answer")
WORDS = sorted({*(verb for noun in LOOKING for verb in NOUNS.get(noun, ())), "r1", "r1.1", "r2.9", "@last", "--limit"})
FLAGS = ("--happened", "--same", "--another", "--result", "--reason", "--expect-head", "--args", "--status", "-h")
KNOWN = {*range(12), 130, 143}


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger in which much has happened."""
    folder = tmp_path_factory.mktemp("nonsense")
    a_lived_in_ledger(folder)
    return folder / "state"


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    noun=st.sampled_from(LOOKING), words=st.lists(st.sampled_from([*WORDS, *FLAGS]) | st.text(max_size=6), max_size=4)
)
def test_nonsense_is_one_clear_error_or_an_answer(
    noun: str, words: list[str], ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = command(["--state-dir", str(ledger), noun, *words])
    said = capsys.readouterr()
    assert code in KNOWN, (noun, words)
    assert "Traceback" not in said.err + said.out, (noun, words)
    assert "PERDURE-900" not in said.err, (noun, words, said.err)
    if said.err.startswith("error["):
        assert "\n  safe: " in said.err
        assert "\n  next: " in said.err
