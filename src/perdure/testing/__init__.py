"""What proves a durable job: an independent provider, a fake clock, crashes on demand, and effects to be counted.

The public names are loaded on first use: the provider process and the pytest plugin import this package too, and they
must stay light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.testing.clock import ClockStands, FakeClock
    from perdure.testing.crash import Crashes, DidNotCrash, Launcher, Life, LifeBroke, Passage
    from perdure.testing.crash_at import CrashAt
    from perdure.testing.effects import AssertEffects, WrongEffects, assert_effects
    from perdure.testing.order import Order, Place
    from perdure.testing.provider.client import Provider, ProviderError

_MODULE_OF = {
    "AssertEffects": "effects",
    "ClockStands": "clock",
    "CrashAt": "crash_at",
    "Crashes": "crash",
    "DidNotCrash": "crash",
    "FakeClock": "clock",
    "Launcher": "crash",
    "Life": "crash",
    "LifeBroke": "crash",
    "Order": "order",
    "Passage": "crash",
    "Place": "order",
    "Provider": "provider.client",
    "ProviderError": "provider.client",
    "WrongEffects": "effects",
    "assert_effects": "effects",
}

__all__ = [  # noqa: RUF022 - grouped by what they are for
    "Provider",
    "ProviderError",
    "FakeClock",
    "ClockStands",
    "CrashAt",
    "Passage",
    "Life",
    "DidNotCrash",
    "LifeBroke",
    "Crashes",
    "Launcher",
    "Order",
    "Place",
    "assert_effects",
    "AssertEffects",
    "WrongEffects",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'perdure.testing' has no attribute {name!r}")
    value = getattr(import_module(f"perdure.testing.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
