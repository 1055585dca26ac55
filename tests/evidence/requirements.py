"""All requirements of the table, each with the tests and commands by which it holds, and with what does not hold.

`docs/requirements.md` is made of this; `tests/docs/test_requirements_page.py` demands that every named test exists and that
every command is one.
"""

from __future__ import annotations

from tests.evidence import (
    requirements_base,
    requirements_calls,
    requirements_files,
    requirements_forks,
    requirements_limits,
    requirements_lives,
    requirements_looking,
    requirements_rules,
)

_TOPICS = (
    requirements_base,
    requirements_calls,
    requirements_files,
    requirements_forks,
    requirements_limits,
    requirements_lives,
    requirements_looking,
    requirements_rules,
)
REQUIREMENTS = tuple(sorted((row for topic in _TOPICS for row in topic.REQUIREMENTS), key=lambda row: row.number))
