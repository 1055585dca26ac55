"""The statements of the store: each has a name of its own, since the later of two would silently take the place."""

from __future__ import annotations

import re
from importlib import resources


def test_no_name_stands_twice() -> None:
    text = resources.files("perdure.store").joinpath("sqlite", "queries.sql").read_text("utf-8")
    names = re.findall(r"^-- (?:name|columns): (\w+)$", text, re.MULTILINE)
    assert len(names) > 100
    assert sorted({name for name in names if names.count(name) > 1}) == []
