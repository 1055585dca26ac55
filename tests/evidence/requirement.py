"""What stands in the table of requirements about one of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement.

    Args:
        says: what is asked for, in short.
        check: what is looked at.
        tests: below `tests/`.
        commands: what a person can type instead.
        missing: what of it does not hold in this version.
    """

    number: str
    says: str
    check: str
    tests: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    missing: str = ""
