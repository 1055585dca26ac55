"""The shipped base policy, read without the machinery that strangers' files need.

``base_policy.yaml`` keeps to one rule a line, so that a start without overlays loads neither a YAML reader
nor a schema library; a test compares the result with that of the full reader.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from perdure.model.policy import Policy, Rule
from perdure.model.toolcall import ReplayPolicy, SideEffectClass

BASE_NAME = "base_policy.yaml"
BASE_PATH = Path(__file__).with_name(BASE_NAME)

_RULE = re.compile(r"  - \{(.*)\}")
_PAIR = re.compile(r'([a-z_]+): (?:"([^"]*)"|([^",]+))(?:, |$)')


@lru_cache(maxsize=1)
def base_policy() -> Policy:
    """Return the shipped rules, which speak only where a tool is silent."""
    lines = BASE_PATH.read_text("utf-8").splitlines()
    found = ((number, _RULE.fullmatch(line)) for number, line in enumerate(lines, start=1))
    rules = tuple(_rule(number, match[1]) for number, match in found if match is not None)
    return Policy(rules=rules, files=(BASE_NAME,))


def _rule(line: int, text: str) -> Rule:
    given = {key: quoted or plain for key, quoted, plain in _PAIR.findall(text)}
    replay = given.get("replay_policy")
    return Rule(
        file=BASE_NAME,
        line=line,
        tool=given.get("tool"),
        tool_name_regex=given.get("tool_name_regex"),
        namespace=given.get("namespace"),
        side_effect_class=SideEffectClass(given["side_effect_class"]),
        replay_policy=None if replay is None else ReplayPolicy(replay),
        shipped=True,
    )
