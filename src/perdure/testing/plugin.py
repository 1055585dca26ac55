"""The pytest plugin: `perdure_provider`, `perdure_clock`, `crash_at` and `assert_effects`.

Pytest loads this module at its start in every project that has Perdure installed, so it imports nothing heavy before a
fixture is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from perdure.testing.clock import FakeClock
    from perdure.testing.crash import Launcher
    from perdure.testing.crash_at import CrashAt
    from perdure.testing.effects import AssertEffects
    from perdure.testing.provider.client import Provider


@pytest.fixture
def perdure_provider(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A provider process of its own for this test, with faults to be armed; its log is the judge of what happened."""
    from perdure.testing.provider.client import ADDRESS_VARIABLE, Provider

    with Provider(tmp_path_factory.mktemp("provider") / "provider.jsonl", fsync=False) as running:
        monkeypatch.setenv(ADDRESS_VARIABLE, running.url)
        yield running


@pytest.fixture
def perdure_clock() -> FakeClock:
    """A clock that stands still until the test advances it; the lives of `crash_at` begin at its time."""
    from perdure.testing.clock import FakeClock

    return FakeClock()


@pytest.fixture(scope="session")
def _perdure_launcher() -> Iterator[Launcher]:  # pyright: ignore[reportUnusedFunction] - pytest finds it
    from perdure.testing.crash import Launcher

    with Launcher(preload=("pytest", "perdure.testing.provider.client")) as launcher:
        yield launcher


@pytest.fixture
def crash_at(
    request: pytest.FixtureRequest, _perdure_launcher: Launcher, tmp_path_factory: pytest.TempPathFactory
) -> CrashAt:
    """Runs a `main` or a job in a process that is killed at a place, and goes on in new ones.

    `crash_at(main, tool="send_mail")`, or every place there is: `for passage in crash_at.every_point(main)`.
    """
    from perdure.testing.crash_at import CrashAt

    names = request.fixturenames
    return CrashAt(
        _perdure_launcher,
        lambda: tmp_path_factory.mktemp("crash"),
        provider=request.getfixturevalue("perdure_provider") if "perdure_provider" in names else None,
        clock=request.getfixturevalue("perdure_clock") if "perdure_clock" in names else None,
    )


@pytest.fixture
def assert_effects(request: pytest.FixtureRequest) -> AssertEffects:
    """Demands that exactly these effects happened, and says which was repeated, lost or uninvited."""
    from perdure.testing.effects import AssertEffects

    knife: CrashAt | None = request.getfixturevalue("crash_at") if "crash_at" in request.fixturenames else None
    return AssertEffects(lambda: None if knife is None else knife.newest)
