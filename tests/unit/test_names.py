"""Which tool a caller means by a name that has something before it (R109)."""

from __future__ import annotations

import pytest

from perdure import tool
from perdure.core.names import spellings
from perdure.runtime.registry import Registry


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ("send_mail", ["send_mail"]),
        ("functions.send_mail", ["functions.send_mail", "send_mail"]),
        ("mcp__post__send_mail", ["mcp__post__send_mail", "send_mail"]),
        ("mcp__post__send__mail", ["mcp__post__send__mail", "send__mail"]),
        ("mcp__post__", ["mcp__post__"]),
        ("mcp__send_mail", ["mcp__send_mail"]),
        ("my__post__send_mail", ["my__post__send_mail"]),
    ],
)
def test_what_a_spelling_may_stand_for(raw: str, meant: list[str]) -> None:
    assert list(spellings(raw)) == meant


def test_a_tool_that_really_has_the_whole_name_is_the_one_that_is_meant() -> None:
    @tool(name="send_mail", side_effect_class="external")
    def short() -> None: ...

    @tool(name="mcp__post__send_mail", side_effect_class="external")
    def whole() -> None: ...

    known = Registry([short])
    assert known.by_spelling("mcp__post__send_mail") is short
    assert Registry([short, whole]).by_spelling("mcp__post__send_mail") is whole
    assert known.by_spelling("mcp__post__send_letter") is None
