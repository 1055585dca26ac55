"""A stored JSON text is JSON of the same shape, gives back the exact value, and holds no secret."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.core.codec import encode
from perdure.core.marks import shortened
from perdure.core.redact import WHOLE, Redactor
from perdure.store.vault import Vault

QUICK = settings(max_examples=120, deadline=None, database=None)
KEY = bytes(range(32))
KNOWN = 'kn"own\\value 1'

# Texts that once tore quotes and commas out of the JSON around them, and parts of which such texts are made.
TELLING = (
    *("Password:", "password: ", "token=", "https://x.example/?token=", "pin:", "export API_TOKEN=", 'secret: "', "'"),
    *("Bearer ", "Basic ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "https://user:", "pw@host/"),
    *('{"password": "ab\\"cd-HUNTER"}', "{'token': 'a', \"b\": 1}", "\\", '"', "\n", ",", "{", "[", "]", ":", "\u2039"),
    *("\u2039redacted:named:0123456789abcdef:AAAA\u203a", "\u2039redacted:secret.SMTP_PASSWORD:01234567\u203a", KNOWN),
)
TEXTS = st.lists(st.sampled_from(TELLING) | st.text(max_size=6), max_size=4).map("".join)
NAMES = (
    st.sampled_from(["password", "tokens", "pin", "my api key", "auth", "$secret", "$map", "$tuple", "note"]) | TEXTS
)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES: Any = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


def knowing(value: str) -> Vault:
    found = Vault(None, Redactor(), lambda _count: KEY)
    found.redactor.know("secret.KNOWN", value)
    return found


HIDING = knowing(KNOWN)


def shape_of(value: Any) -> Any:
    """Return lists, objects and truth values as they are, and a word for whatever a mark may stand for."""
    if isinstance(value, dict):
        return [shape_of(item) for item in value.values()]
    if isinstance(value, list):
        return ["list", *map(shape_of, value)]
    return value if value is None or isinstance(value, bool) else "leaf"


@QUICK
@given(VALUES, st.booleans())
@example(["Password:", "Forgot it?"], True)
@example({"label": "pin:", "n": 5}, False)
@example({"url": "https://x/?token=", "n": "a"}, True)
@example({"stdout": "export API_TOKEN=", "stderr": ""}, True)
@example({"body": '{"password": "ab\\"cd-HUNTER-THREE", "x": 1}'}, True)
@example({"body": '{"pin": 4711}'}, True)
@example({"pin": [4711, {"$float": "1.0"}], "n": "\ud83d\ude00 token=abcdef12"}, True)
def test_what_is_stored_is_json_of_the_same_shape_and_comes_back_exactly(value: Any, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii)
    hidden = HIDING.hide(text)
    assert HIDING.reveal(hidden) == text
    for seen in (hidden, shortened(hidden), HIDING.told(hidden), HIDING.shown(text), HIDING.shown(hidden, page=True)):
        assert shape_of(json.loads(seen)) == shape_of(json.loads(text)), seen
    assert HIDING.shown(HIDING.shown(text)) == HIDING.shown(text)


SECRETS = st.text(st.sampled_from("aZ9\"\\'{[:,=/ \né\u2039"), min_size=1, max_size=12).map(
    lambda text: f"<{text}>#4711#"
)
TELLING_NAMES = st.sampled_from(["password", "API_TOKEN", "client secret", "user.pin", "Authorization", "tokens"])


def dug_out(text: str) -> str:
    """Return a text with the JSON in its strings, and in theirs, written out."""
    if not text.lstrip().startswith(('"', "{", "[")):
        return text
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        return text
    items = value if isinstance(value, list) else [*value, *value.values()] if isinstance(value, dict) else [value]
    return "\n".join([text, *(dug_out(item) if isinstance(item, str) else dug_out(json.dumps(item)) for item in items)])


@QUICK
@given(SECRETS, TELLING_NAMES, st.integers(0, 3), VALUES)
def test_a_value_with_a_telling_name_is_nowhere_in_the_stored_text_however_deep_it_is(
    secret: str, name: str, nested: int, beside: Any
) -> None:
    value: Any = {name: secret, "also": {f"x.{name}": [secret]}, "beside": beside}
    for _ in range(nested):
        value = {"body": json.dumps(value)}
    text = encode(value)
    hidden = HIDING.hide(text)
    assert "#4711#" not in dug_out(hidden)
    assert HIDING.reveal(hidden) == text


@QUICK
@given(SECRETS, TELLING_NAMES, st.integers(0, 2))
def test_a_named_value_in_a_text_that_is_no_json_goes_as_a_whole_however_its_quotes_are_escaped(
    secret: str, name: str, nested: int
) -> None:
    fragment = json.dumps({name: secret})[:-1]  # cut: it does not parse
    for _ in range(nested):
        fragment = json.dumps(fragment)[1:-1]
    hidden = HIDING.hide(f"HTTP 401 {fragment} and more")
    assert "#4711#" not in hidden
    assert hidden.endswith(" and more")
    assert HIDING.reveal(hidden) == f"HTTP 401 {fragment} and more"


def test_a_known_number_is_hidden_with_quotes_of_its_own_and_comes_back_without_them() -> None:
    hiding = knowing("471147")
    for text in ("471147", '{"a":471147}', '["471147", 471147]', "[471147"):
        hidden = hiding.hide(text)
        assert "471147" not in hidden
        assert hiding.reveal(hidden) == text
    assert WHOLE in json.loads(hiding.hide('{"a":471147}'))["a"]
