"""A small slice of the soak (`python3 tasks.py soak`), with a fixed seed: the same sections, fewer schedules."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.support import planted
from tests.soak.figures import Figures
from tests.soak.hunt import Hunt
from tests.soak.lives import strace
from tests.soak.pieces import REFERENCE
from tests.soak.player import Player
from tests.soak.schedule import Kill, Plan, Schedule
from tests.soak.sections import Limits, Walk, answers, depth2, once, randomly, schedule_of
from tests.soak.stand import Stand

SIDE_BY_SIDE = min(2, os.cpu_count() or 1)
RANDOM_SCHEDULES = 36
AT = {"fdatasync": (2, 5, 9, 14), "pwrite64": (2, 9, 14), "sendto": (2, 5)}
SYSCALLS = [f"strace:reference:{call}:{number}" for call, numbers in AT.items() for number in numbers]
SYSCALLS = [*SYSCALLS, "strace:reference:fdatasync:2:second"]


def hunted(folder: Path, section: str, walks: Iterator[Walk]) -> Figures:
    """What one section finds, which must be nothing but progress."""
    hunt = Hunt(folder)
    hunt.take(section, walks, SIDE_BY_SIDE)
    figures = hunt.figures
    assert not figures.failed, f"play them again: python3 tasks.py soak --replay {figures.failed[0]}"
    assert figures.sums["receipts"] > figures.sums["lives"] / 4, "hardly any progress was made"
    return figures


@pytest.fixture
def stand(quick_folder: Path) -> Iterator[Stand]:
    with Stand(quick_folder / "stand") as ready:
        yield ready


@pytest.mark.timeout(600)
def test_the_reference_job_survives_two_kills_at_every_few_points(quick_folder: Path) -> None:
    figures = hunted(quick_folder, "depth2", depth2(Limits(seed=1, schedules=0, stride=17)))
    assert figures.sums["kills"] > figures.by_section["depth2"] * 1.3, "hardly a life was killed after the first"


@pytest.mark.timeout(600)
def test_random_schedules_of_kills_faults_rivals_and_verdicts_keep_every_count(quick_folder: Path) -> None:
    figures = hunted(quick_folder, "random", randomly(Limits(seed=2, schedules=RANDOM_SCHEDULES)))
    assert figures.by_section["random"] == RANDOM_SCHEDULES
    assert figures.sums["kills"] > RANDOM_SCHEDULES
    assert figures.sums["questions"] > figures.sums["needless"]


@pytest.mark.timeout(600)
def test_an_answer_that_is_cut_off_is_taken_or_asked_for_again(quick_folder: Path) -> None:
    figures = hunted(quick_folder, "resolve", answers(Limits(seed=1, schedules=0, stride=13)))
    assert figures.sums["answer_kills"] >= 12


@pytest.mark.timeout(600)
@pytest.mark.skipif(strace() is None, reason="strace is not installed")
def test_a_process_killed_as_it_enters_a_syscall_loses_and_repeats_nothing(quick_folder: Path) -> None:
    figures = hunted(quick_folder, "strace", (once(schedule_of(label)) for label in SYSCALLS))
    assert figures.sums["kills"] > len(SYSCALLS), "strace killed nobody"


def test_the_soak_sees_a_duplicate_and_a_loss_and_names_the_schedule(stand: Stand) -> None:
    killed = Schedule("planted:1", REFERENCE, (Plan(Kill("tool", name="asked")),))
    again = Player(stand, killed, planted("doubts_are_sent_again")).play()
    assert (again.duplicates, again.losses) == (1, 0), again
    assert again.label == "planted:1" and "duplicates" in again.problems[0]
    both = schedule_of("depth2:3:3")
    assert not Player(stand, both).play().problems


def test_a_label_that_names_nothing_is_refused() -> None:
    for label in ("nonsense:1", "strace:nobody:fdatasync:1", "7"):
        with pytest.raises(ValueError, match=r"label|names no schedule"):
            schedule_of(label)
