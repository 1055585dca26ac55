"""Rules of the ledger and the store, broken one at a time. Each scene is played twice: as it is, and with the rule broken."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import perdure
from tests.crash.place import BOTH, STORE_UNUSABLE, Place
from tests.crash.planting import load
from tests.crash.store_scenes import play

STUCK = -1
# These are shown in test_power_loss.py.
POWER_LOSS = {"commits_are_not_synced", "the_key_of_secrets_is_not_synced", "waiters_are_answered_before_the_commit"}


@dataclass(frozen=True)
class Shown:
    """A broken rule, the scene that shows it, and what is measured with the rule and without it."""

    bug: str
    scene: str
    honest: Any
    broken: Callable[[Any], bool]


def is_(value: Any) -> Callable[[Any], bool]:
    return lambda found: bool(found == value)


SHOWN = [
    Shown(
        "a_savepoint_error_is_ignored", "a_member_fails",
        [["ok", "error", "ok"], ["early", "late"]], is_([["ok", "error", "ok"], ["early", "half", "late"]]),
    ),
    Shown("a_group_goes_on_without_its_transaction", "no_room", [[], []], lambda found: found[0] != found[1]),
    Shown("a_forked_child_uses_the_connection_of_its_parent", "a_child", [3, ["parent"]], is_([0, ["parent", "child"]])),
    Shown("a_file_that_was_replaced_is_written_on", "another_file", "refused", is_("written")),
    Shown("a_schema_from_the_future_is_taken", "the_future", "SchemaError", is_("opened")),
    Shown("a_migration_is_not_one_transaction", "killed_in_a_migration", 1, lambda found: "exists" in str(found)),
    Shown("the_hash_of_a_payload_is_not_checked", "a_payload_is_cut", "LedgerDamaged", is_(999)),
    Shown("pages_have_no_checksum", "a_bit_flips", "LedgerDamaged", is_("coss@example.org")),
    Shown("the_log_is_taken_as_far_as_it_can_be_read", "a_bit_of_the_log_flips", "LedgerDamaged", is_(None)),
]  # fmt: skip


@dataclass(frozen=True)
class Lived:
    """A broken rule, the fault in which a whole life shows it, and what comes of it: exit code, letters, questions."""

    bug: str
    fault: dict[str, Any]
    honest: tuple[int, list[str], int]
    broken: tuple[int, list[str], int]


LIVED = [
    Lived(
        "a_failed_commit_is_ignored", {"what": "full", "at": "start", "last": 1},
        (STORE_UNUSABLE, [], 0), (STORE_UNUSABLE, BOTH, STUCK),
    ),
    Lived(
        "a_failed_commit_is_tried_again_in_place", {"what": "sync", "at": "start"},
        (STORE_UNUSABLE, [], 0), (0, BOTH, 0),
    ),
    Lived(
        "a_late_receipt_is_thrown_away", {"what": "full", "at": "second", "last": 3},
        (STORE_UNUSABLE, BOTH, 0), (STORE_UNUSABLE, BOTH, 1),
    ),
]  # fmt: skip


@pytest.mark.parametrize("shown", [*SHOWN, *LIVED], ids=lambda shown: shown.bug)
def test_a_broken_rule_of_the_store_is_seen(tmp_path: Path, shown: Shown | Lived) -> None:
    kept, broken = tmp_path / "kept", tmp_path / "broken"
    kept.mkdir()
    broken.mkdir()
    if isinstance(shown, Shown):
        assert play(shown.scene, kept, None) == shown.honest
        found = play(shown.scene, broken, shown.bug)
        assert shown.broken(found), found
    else:
        assert lived(kept, shown.fault, None) == shown.honest
        assert lived(broken, shown.fault, shown.bug) == shown.broken


def lived(folder: Path, fault: dict[str, Any], bug: str | None) -> tuple[int, list[str], int]:
    """Live once on a failing disk, then on a good one until the end; the questions of the second part are counted."""
    place = Place(folder, bug)
    ended = place.live("two_mails", **fault)
    posted = place.posted()
    try:
        return ended.exit_code, posted, place.recover("two_mails")
    except perdure.StoreError:
        return ended.exit_code, posted, STUCK


def test_every_broken_rule_of_the_store_is_shown() -> None:
    shown = {*POWER_LOSS, *(one.bug for one in SHOWN), *(one.bug for one in LIVED)}
    ours = {plant.name for plant in load().values() if plant.install.__module__.endswith("planted_store")}
    assert shown == ours
