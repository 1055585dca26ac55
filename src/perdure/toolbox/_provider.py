"""What tools that talk to a provider share: settings from the environment, and what a refusal is worth."""

from __future__ import annotations

import ipaddress
import os
from typing import cast

from perdure.ports.tool import AUTH, CallContext, ToolFailed

INJECTED = cast(CallContext, None)
"""Default of ``call``: the engine always fills it in, and type checkers let callers leave it out."""

_YES, _NO = ("1", "yes", "true", "on"), ("0", "no", "false", "off")


class OutcomeUnknown(Exception):
    """The answer does not tell whether the effect exists: the call must be settled, not just tried again."""


def setting(name: str, default: str = "") -> str:
    """Return an environment variable without surrounding space, or ``default`` where it is unset or empty."""
    return os.environ.get(name, "").strip() or default


def required_setting(name: str, purpose: str) -> str:
    """Return an environment variable that the tool cannot do without.

    Raises:
        ToolFailed: it is unset; nothing was sent and no later attempt would do better.
    """
    value = setting(name)
    if not value:
        raise ToolFailed(f"{name} is not set: it names {purpose}", retry=False)
    return value


def flag(name: str, *, default: bool) -> bool:
    """Return a yes-or-no environment variable.

    Raises:
        ToolFailed: the value is neither; guessing could switch encryption off.
    """
    value = setting(name).lower()
    if not value:
        return default
    if value not in _YES + _NO:
        raise ToolFailed(f"{name}={value!r} is neither yes nor no", retry=False)
    return value in _YES


def port_setting(name: str, default: int) -> int:
    """Return a TCP port from the environment.

    Raises:
        ToolFailed: the value is no port number.
    """
    value = setting(name, str(default))
    if not value.isdecimal() or not 0 < int(value) < 65536:
        raise ToolFailed(f"{name}={value!r} is not a port number", retry=False)
    return int(value)


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is this machine, where a password in clear text crosses no wire."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


CREDENTIALS_REFUSED = frozenset({401, 403, 407})
"""HTTP answers that say: not with these credentials (RFC 9110 §15.5)."""


def refused(call: CallContext, message: str, *, retry: bool, status: int = 0) -> Exception:
    """Return the exception for an attempt that provably did nothing.

    Only the first attempt's refusal proves that *the call* did nothing. A later attempt may follow one whose
    reply was lost, and a provider that refuses it (credentials gone, address changed, rate limited) has not
    looked that one up.
    """
    if call.attempt <= 1:
        return ToolFailed(message, retry=retry, kind=AUTH if status in CREDENTIALS_REFUSED else None)
    return OutcomeUnknown(f"{message}; an earlier attempt of this call may have gone through")
