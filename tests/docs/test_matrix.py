"""The page of the durability matrix: every named test exists, every case is there, every query is run with the page."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.docs.evidence_support import missing
from tests.docs.markdown import ROOT, blocks
from tests.evidence import matrix

PAGE = ROOT / "docs/durability_test_matrix.md"
CASES = ["a", "b", "c", "d", "e"]
NUMBERS = ["1", "1b", "2", "3", "3b", *(str(number) for number in range(4, 45))]


def test_every_case_and_every_scenario_stands_in_the_matrix_once() -> None:
    assert [row.number for row in matrix.CASES] == CASES
    assert [row.number for row in matrix.SCENARIOS] == NUMBERS


def test_every_test_that_the_matrix_names_exists() -> None:
    assert {row.number: wrong for row in matrix.rows() if (wrong := missing(row.tests))} == {}


def test_a_case_without_a_test_says_what_is_missing_and_one_with_a_test_says_where_to_look() -> None:
    for row in matrix.rows():
        assert row.tests or row.missing, row
        assert bool(row.tests) == bool(row.look), row
        assert set(row.look) <= set(matrix.QUERIES), row


def test_every_query_is_asked_for_and_run() -> None:
    runnable = {block.body.strip() for block in blocks(PAGE) if block.language == "sql" and block.runnable}
    assert runnable == {sql for _, sql in matrix.QUERIES.values()}
    assert {name for row in matrix.rows() for name in row.look} == set(matrix.QUERIES)
    headings = re.findall(r"^#### (\w+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert headings == list(matrix.QUERIES), "the links of the tables lead to these headings"


def test_one_case_is_chosen_by_its_number_and_an_unknown_number_is_an_error() -> None:
    def chosen(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=--import-mode=importlib"]
        return subprocess.run([*command, *words], cwd=ROOT, capture_output=True, text=True, check=False)

    found = chosen("tests/crash/test_mails.py", "tests/integration/test_probes.py", "--scenario", "8")
    names = {line.partition("[")[0] for line in found.stdout.splitlines() if "::" in line}
    assert names == {f"tests/{test}" for row in matrix.SCENARIOS if row.number == "8" for test in row.tests}
    assert (
        chosen("tests/unit", "--scenario", "13").returncode == chosen("tests/unit", "--scenario", "x").returncode == 4
    )
