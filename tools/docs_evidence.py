"""The generated blocks of the evidence pages: the matrix, the requirements, the planted bugs, the recorded figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tests.crash import planting
from tests.evidence import matrix, requirements
from tests.evidence.requirement import Requirement
from tests.model.programs import MUTANTS
from tools.figures import recorded

ROOT = Path(__file__).resolve().parent.parent


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(head)
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows)])


def _tests(tests: Iterable[str]) -> str:
    return "<br>".join(f"`tests/{test}`" for test in tests)


def _case(row: matrix.Row) -> tuple[str, ...]:
    if not row.tests:
        return row.number, row.case, row.killed, row.outcome, f"*not in this version: {row.missing}*", "", ""
    missing = f"; *not in this version: {row.missing}*" if row.missing else ""
    look = ", ".join(f"[{name}](#{name})" for name in row.look)
    command = f"`python3 tasks.py test --scenario {row.number}`"
    return row.number, row.case, row.killed, row.outcome + missing, _tests(row.tests), command, look


def matrix_of(rows: Iterable[matrix.Row]) -> str:
    """Return cases as a table."""
    head = ("#", "case", "killed", "what must come out", "shown by", "run it", "look at")
    return _table(head, map(_case, rows))


def matrix_queries() -> str:
    """Return the questions to a ledger, as blocks that are run with the page."""
    parts = [f"#### {name}\n\n{says}:\n\n```sql runnable\n{sql}\n```" for name, (says, sql) in matrix.QUERIES.items()]
    return "\n\n".join(parts)


def requirement_rows() -> str:
    """Return the requirements with the check that each of them stands on."""
    head = ("requirement", "in short", "how it is checked", "by")
    rows = [(row.number, row.says, row.check, _evidence(row)) for row in requirements.REQUIREMENTS]
    return _table(head, rows)


def _evidence(row: Requirement) -> str:
    parts = [f"`tests/{test}`" for test in row.tests] + [f"`{command}`" for command in row.commands]
    if row.otherwise:
        number, _, says = row.otherwise.partition(": ")
        (page,) = (ROOT / "docs/design").glob(f"{number}-*.md")
        parts.append(f"*decided otherwise: {says}* ([{number}](design/{page.name}))")
    return "<br>".join([*parts, *([f"*not in this version: {row.missing}*"] if row.missing else [])])


def planted_bugs() -> str:
    """Return every safety rule that is broken on purpose in the suite, and the test that goes red then."""
    plants = [plant for plant in planting.load().values() if plant.area != planting.HELP]
    plants.sort(key=lambda plant: (planting.AREAS.index(plant.area), plant.name))
    rows = [(plant.area, f"`{plant.name}`", plant.why, f"`tests/crash/{plant.caught_by}`") for plant in plants]
    return f"{len(plants)} rules, each broken once:\n\n" + _table(
        ("in", "broken rule", "what is wrong then", "caught by"), rows
    )


def mutants() -> str:
    """Return the rules of the model that are broken on purpose, and the program that notices."""
    rows = [(mutant, program, str(crashes)) for mutant, (program, crashes) in MUTANTS.items()]
    return f"{len(rows)} rules of the model:\n\n" + _table(("broken rule", "noticed by the program", "crashes"), rows)


def figures() -> str:
    """Return the recorded figures, each with its command, commit and date."""
    parts = []
    for name, entry in recorded().items():
        state = "" if entry["clean"] else " with changes that were not committed"
        told = f"`{entry['command']}`, {entry['on']}, commit `{entry['commit'][:12]}`{state}:"
        cells = [[key.replace("_", " "), _number(value)] for key, value in entry["figures"].items() if value != ""]
        parts += [f"### {name}", told, _table(("what", "how many"), cells)]
    return "\n\n".join(parts)


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def versions() -> str:
    """Return what the figures were measured with."""
    names = ("perdure", "python", "sqlite", "apsw", "system")
    found = {name: sorted({str(entry[name]) for entry in recorded().values()}) for name in names}
    return _table(("what", "version"), [(name, ", ".join(values)) for name, values in found.items()])


GENERATORS: dict[str, Callable[[], str]] = {
    "figures": figures,
    "matrix-cases": lambda: matrix_of(matrix.CASES),
    "matrix-queries": matrix_queries,
    "matrix-scenarios": lambda: matrix_of(matrix.SCENARIOS),
    "mutants": mutants,
    "planted-bugs": planted_bugs,
    "requirements": requirement_rows,
    "versions": versions,
}
