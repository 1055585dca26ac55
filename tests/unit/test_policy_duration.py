"""Durations as people write them."""

import math

import pytest

from perdure.core.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "seconds", "shown"),
    [
        ("250ms", 0.25, "250ms"),
        ("10s", 10.0, "10s"),
        ("5m", 300.0, "5m"),
        ("24h", 86400.0, "24h"),
        ("7d", 604800.0, "7d"),
        ("1.5h", 5400.0, "90m"),
        ("48h", 172800.0, "2d"),
        ("0s", 0.0, "0s"),
        ("0.1s", 0.1, "100ms"),
        ("1500ms", 1.5, "1.5s"),
        (30, 30.0, "30s"),
        (0.5, 0.5, "500ms"),
        (0, 0.0, "0s"),
        ("36500d", 3153600000.0, "36500d"),
        ("forever", math.inf, "forever"),
        (math.inf, math.inf, "forever"),
    ],
)
def test_what_is_written_is_read_and_shown(written: object, seconds: float, shown: str) -> None:
    assert parse_duration(written) == seconds
    assert format_duration(seconds) == shown
    assert parse_duration(shown) == seconds


@pytest.mark.parametrize(
    "written",
    [
        "", "10", "s", "10 s", " 10s", "10S", "10sec", "-1s", "+1s", "1h30m", "1e3s", "ten", "1_0s", "٣s", ".5s", "5.s",
        "10s\n", "9" * 40 + "s", "36501d", -1, -0.5, -math.inf, math.nan, 10**400, True, False, None, [], {}, b"10s",
    ],
)  # fmt: skip
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"duration|between"):
        parse_duration(written)
