"""The short way through the codec gives the very bytes of the long one."""

from __future__ import annotations

import json
from typing import Any

import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.codec import canonical, decode, encode, from_tagged, to_tagged

LEAVES = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text() | st.floats(allow_nan=False)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


@given(VALUES)
def test_canonical_bytes_are_those_of_rfc_8785(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(to_tagged(value, exact=False))


@given(VALUES)
def test_decoding_gives_back_what_the_long_way_gives(value: Any) -> None:
    text = encode(value)
    assert decode(text) == from_tagged(json.loads(text)) == value
