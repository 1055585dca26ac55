"""What is hidden of a text that is no JSON, what is left, and what people see of a text that is cut or was bad once."""

from __future__ import annotations

import json

import pytest

from perdure.core.marks import blind_mark, shortened, whole_marks
from perdure.core.redact import Redactor
from perdure.core.summary import shorten
from perdure.store.vault import Vault

REDACTOR = Redactor()
MARK = "\u2039redacted:secret.SMTP_PASSWORD:1a2b3c4d\u203a"


def shown(text: str, *, page: bool = False) -> str:
    return REDACTOR.redact(text, blind_mark, by_line=page)


@pytest.mark.parametrize(
    "text",
    [
        'note=["Password:", "see below"] and more',
        '-i \'l=["Password:","x"]\' is no number',
        "{'label': 'Password:', 'value': 'Forgot it?', 5: 'x'}",
        'cut: ["Password:","see bel\u2026',
        'cut: {"label":"Password:"\u2026',
        'cut: {"password":"\u2026` (2026-11-22T10:48:18Z)',
        '{"a": "export API_TOKEN="}\n{"b": "no"}',
        f'"auth {MARK}" and "{MARK}", SMTP_PASSWORD: {MARK}, password={MARK}',
        f'{{"note": "{MARK}", "password": "{MARK}"',
        f"{MARK}which-stands-behind-4711",
        "my pin: none, the token is old",
    ],
)
def test_what_is_no_secret_stays_as_it_is_on_a_page(text: str) -> None:
    assert shown(text, page=True) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('HTTP 401: {"password": "ab\\"cd-HUNTER", "x": 1', "HUNTER"),
        ('log "{\\"password\\": \\"ab\\\\\\"cd-HUNTER\\"}"', "HUNTER"),
        ('password: "it\'s-HUNTER" and', "HUNTER"),
        ("password='a\"b-HUNTER'", "HUNTER"),
        ("password = ab\\cd-HUNTER", "HUNTER"),
        ('{"body": "{\\"password\\": \\"ab\\\\\\"cd-HUNTER\\"}"}', "HUNTER"),
        ('{"body": "see: {\\"password\\": \\"ab\\\\\\"cd-HUNTER\\"} there"}', "HUNTER"),
        ('said {"pin": 4711} and {"user pin": "4711"} tokens=["4711"]', "4711"),
        ('{"$map": [["password", "HUNTER"], [1, 2]], "$tuple": ["x"]}', "HUNTER"),
        ('{"password": {"$tuple": ["HUNTER"]}, "pin": {"$float": "HUNTER"}}', "HUNTER"),
        ('password: "unclosed HUNTER\n', "HUNTER"),
        (f'"password": "{MARK} and HUNTER"', "HUNTER"),
    ],
)
def test_a_value_with_a_telling_name_goes_as_a_whole(text: str, secret: str) -> None:
    for page in (False, True):
        assert secret not in shown(text, page=page)


def test_the_name_of_a_declared_secret_stays() -> None:
    text = '{"password": {"$secret": "SMTP_PASSWORD"}, "token": {"$secret": "API_TOKEN"}}'
    assert shown(text) == text


def test_a_value_on_a_page_ends_with_its_line_and_in_a_stored_text_with_its_quote() -> None:
    text = 'password: "one HUNTER\ntwo HUNTER" three'
    assert shown(text).count("HUNTER") == 0
    assert shown('cut: password: "one HUNTER\nthe next line', page=True).endswith("\nthe next line")


def test_a_text_is_never_cut_inside_a_mark() -> None:
    text = f"auth {MARK} and more"
    for characters in range(3, len(text) + 2):
        told = shorten(text, characters)
        assert len(told) <= characters
        assert "\u2039" not in told or MARK in told
    assert shorten(text, len(text) - 1) == f"auth {MARK} and mo\u2026"
    assert whole_marks("a \u2039 b", 3) == 3


def test_what_an_older_version_stored_badly_is_json_for_people_and_comes_back_exactly() -> None:
    vault = Vault(None, REDACTOR, bytes)
    exact = '["Password:","Forgot it?"]'
    stored = exact.replace(",", vault._made().hide("named", ","))
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(stored)
    assert vault.reveal(stored) == vault.told(stored) == exact
    gone = Vault(None, REDACTOR)
    assert json.loads(gone.told(stored)) == [shortened(stored)]
