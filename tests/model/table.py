"""Prints what the model looked at, and which program noticed each broken rule: `python -m tests.model.table`."""

import sys

from tests.model.explore import Explorer
from tests.model.model_programs import MODEL_CASES, MODEL_MUTANTS
from tests.model.programs import CASES, MUTANTS


def main() -> None:
    """Two tables in Markdown; the argument is the number of crashes, else each program's own."""
    depth = int(sys.argv[1]) if len(sys.argv) > 1 else None
    print("| program | crashes | ledgers | lives | schedules | broken promises |\n|---|---|---|---|---|---|")
    for name, case in (CASES | MODEL_CASES).items():
        crashes = case.crashes if depth is None else depth
        explorer = Explorer(case.program, switches=1)
        ends = explorer.ends(crashes)
        wrong = sum(many for end, many in ends.items() if case.broken_by(end))
        print(f"| {name} | {crashes} | {len(explorer.known)} | {explorer.lives} | {sum(ends.values())} | {wrong} |")
    print(
        "\n| broken rule | noticed by | crashes | schedules | of them wrong | for example |\n|---|---|---|---|---|---|"
    )
    for mutant, (name, crashes) in (MUTANTS | MODEL_MUTANTS).items():
        case = (CASES | MODEL_CASES)[name]
        ends = Explorer(case.program, frozenset({mutant}), switches=1).ends(crashes)
        faulty = {end: many for end, many in ends.items() if case.broken_by(end)}
        example = case.broken_by(max(faulty, key=faulty.__getitem__)) if faulty else "not noticed"
        print(f"| {mutant} | {name} | {crashes} | {sum(ends.values())} | {sum(faulty.values())} | {example} |")


if __name__ == "__main__":
    main()
