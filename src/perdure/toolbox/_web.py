"""Reading the web politely: robots.txt, one request slot per host, bounded retries, size caps.

The rules are those of RFC 9309 (robots) and RFC 9110 (status codes, ``Retry-After``). Only GET is sent, so a
retry repeats nothing but a read.
"""

from __future__ import annotations

import asyncio
import functools
import random
import ssl
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urljoin, urlsplit
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

USER_AGENT = "perdure"
MAX_REDIRECTS = 5
_ATTEMPTS = 3
_BACKOFF_BASE_SECONDS = 0.2
_BACKOFF_CAP_SECONDS = 5.0
_RETRY_AFTER_CAP_SECONDS = 10.0
_CRAWL_DELAY_CAP_SECONDS = 30.0
_ROBOTS_BYTES = 500 * 1024  # RFC 9309 §2.5: a crawler must read at least 500 KiB
_ROBOTS_SECONDS = 3600.0  # RFC 9309 §2.4: not longer than 24 hours
_ROBOTS_FAILED_SECONDS = 10.0  # a site that is down is not asked again for each of its pages
_TRANSIENT = frozenset({429, 500, 502, 503, 504})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply of a server, or why there is none; ``location`` is set on a redirect."""

    status: int | None
    content_type: str = ""
    charset: str | None = None
    body: bytes | None = None
    location: str | None = None
    error: str | None = None
    transient: bool = False
    retry_after: str | None = None


class _Rules(Protocol):
    def can_fetch(self, url: str, user_agent: str) -> bool: ...
    def crawl_delay(self, user_agent: str) -> float | None: ...


@dataclass(frozen=True, slots=True)
class _Robots:
    """What a site allows; ``rules`` is None where it has none, ``problem`` says why nothing may be read."""

    rules: _Rules | None
    problem: str | None
    until: float


class _Slots:
    """Hands out the moments at which a host may be asked again, to all loops and threads of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free_at: dict[str, float] = {}

    def reserve(self, host: str, delay_seconds: float) -> float:
        """Return how long to wait; the slot is taken at once, so that callers queue up behind each other."""
        now = time.monotonic()
        with self._lock:
            start = max(now, self._free_at.get(host, now))
            self._free_at[host] = start + delay_seconds
        return start - now


_slots = _Slots()
_robots: dict[str, _Robots] = {}
_robots_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]] = WeakKeyDictionary()


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Return the process's TLS settings; reading the trust store takes 0.3 s, so it is done once."""
    import httpx2

    return httpx2.create_ssl_context()


def backoff_seconds(failures: int, retry_after: str | None = None) -> float:
    """Return how long to wait after the ``failures``-th failure: exponential, full jitter, capped.

    A server's ``Retry-After`` in seconds (RFC 9110 §10.2.3) is obeyed up to ten seconds.
    """
    if retry_after is not None and retry_after.strip().isdecimal():
        return min(float(retry_after), _RETRY_AFTER_CAP_SECONDS)
    return random.uniform(0, min(_BACKOFF_CAP_SECONDS, _BACKOFF_BASE_SECONDS * 2**failures))


def host_allowed(host: str, allowed: frozenset[str]) -> bool:
    """Return whether ``host`` is one of ``allowed`` or below one of them; ``*`` allows all."""
    return "*" in allowed or any(host == domain or host.endswith("." + domain) for domain in allowed)


def site_of(url: str) -> str:
    """Return the host that stands for a URL's site: in lower case, without ``www.``; empty if it has none."""
    try:
        return (urlsplit(url).hostname or "").removeprefix("www.")
    except ValueError:
        return ""


def _target(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        return location  # judged, and refused, like any other address


def refusal(url: str, allowed: frozenset[str]) -> str | None:
    """Return why ``url`` may not be asked for at all, or None."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as problem:
        return f"url: {problem}"
    if parts.scheme not in ("http", "https") or not host:
        return "url: only http and https can be read"
    if parts.username is not None or parts.password is not None:
        return "url: credentials in a URL would be stored with it"
    return None if host_allowed(host, allowed) else f"domain: {host} is not an allowed domain"


class Web:
    """One crawl's way to the network: a client and the limits that hold for each page.

    Args:
        client: an ``httpx2.AsyncClient`` that follows no redirect by itself.
        accepted: content types that are read; the body of another is left alone.
        max_bytes: cap of one body, after decompression.
        timeout_seconds: bound of one request, from connecting to its last byte.
        delay_seconds: least time between two requests to one host; a longer ``Crawl-delay`` wins.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        accepted: frozenset[str],
        max_bytes: int,
        timeout_seconds: float,
        delay_seconds: float,
    ) -> None:
        self._client = client
        self._timeout_seconds = timeout_seconds
        self._accepted = accepted
        self._max_bytes = max_bytes
        self._delay_seconds = delay_seconds

    async def get(self, url: str, allowed: frozenset[str]) -> tuple[str, Answer]:
        """Return the last URL asked for and its answer; each redirect is judged like a new request.

        Args:
            url: where to begin.
            allowed: domains that may be asked, the target of a redirect included.
        """
        current = url
        for _ in range(MAX_REDIRECTS + 1):
            problem = refusal(current, allowed)
            if problem is None:
                problem = await self._robots_problem(current, allowed)
            if problem is not None:
                return current, Answer(None, error=problem)
            answer = await self._with_retries(current, self._accepted, self._max_bytes)
            if answer.location is None:
                return current, answer
            current = _target(current, answer.location)
        return current, Answer(None, error=f"redirect: more than {MAX_REDIRECTS}")

    async def _robots_problem(self, url: str, allowed: frozenset[str]) -> str | None:
        robots = await self._robots_of(url, allowed)
        if robots.problem is not None:
            return robots.problem
        if robots.rules is None or robots.rules.can_fetch(url, USER_AGENT):
            return None
        return "robots: the site's robots.txt does not allow it"

    async def _robots_of(self, url: str, allowed: frozenset[str]) -> _Robots:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        # One reader at a time: pages fetched side by side share the first one's answer.
        locks = _robots_locks.setdefault(asyncio.get_running_loop(), {})
        async with locks.setdefault(origin, asyncio.Lock()):
            known = _robots.get(origin)
            if known is None or known.until <= time.monotonic():
                known = await self._read_robots(f"{origin}/robots.txt", allowed)
                _robots[origin] = known
            return known

    async def _read_robots(self, url: str, allowed: frozenset[str]) -> _Robots:
        from protego import Protego

        until = time.monotonic() + _ROBOTS_SECONDS
        current = url
        answer = await self._with_retries(current, None, _ROBOTS_BYTES)
        for _ in range(MAX_REDIRECTS):
            if answer.location is None:
                break
            current = _target(current, answer.location)
            if refusal(current, allowed) is not None:
                return _Robots(None, None, until)
            answer = await self._with_retries(current, None, _ROBOTS_BYTES)
        if answer.status is None or answer.status >= 500 or answer.status == 429:
            # RFC 9309 §2.3.1.4: unreachable means "disallow all".
            until = time.monotonic() + _ROBOTS_FAILED_SECONDS
            return _Robots(None, f"robots: robots.txt cannot be read ({answer.error})", until)
        if answer.status >= 300 or answer.body is None:
            return _Robots(None, None, until)  # RFC 9309 §2.3.1.3: unavailable means "no rules"
        return _Robots(Protego.parse(answer.body.decode("utf-8", "replace")), None, until)

    async def _with_retries(self, url: str, accepted: frozenset[str] | None, max_bytes: int) -> Answer:
        answer = Answer(None)
        for failures in range(1, _ATTEMPTS + 1):
            await asyncio.sleep(_slots.reserve(urlsplit(url).netloc, self._delay_for(url)))
            answer = await self._once(url, accepted, max_bytes)
            if not answer.transient or failures == _ATTEMPTS:
                break
            await asyncio.sleep(backoff_seconds(failures, answer.retry_after))
        return answer

    def _delay_for(self, url: str) -> float:
        parts = urlsplit(url)
        robots = _robots.get(f"{parts.scheme}://{parts.netloc}")
        rules = None if robots is None else robots.rules
        asked = 0.0 if rules is None else rules.crawl_delay(USER_AGENT) or 0.0
        return max(self._delay_seconds, min(asked, _CRAWL_DELAY_CAP_SECONDS))

    async def _once(self, url: str, accepted: frozenset[str] | None, max_bytes: int) -> Answer:
        import httpx2

        try:
            # The client's own timeouts are per read: a body that drips would never end.
            async with asyncio.timeout(self._timeout_seconds), self._client.stream("GET", url) as response:
                return await _read(response, accepted, max_bytes)
        except (httpx2.TransportError, httpx2.DecodingError, TimeoutError) as problem:
            text = f"network: {type(problem).__name__}: {problem}".rstrip(": ")
            return Answer(None, error=text, transient=True)
        except (httpx2.InvalidURL, UnicodeError) as problem:
            return Answer(None, error=f"url: {problem}")


async def _read(response: Response, accepted: frozenset[str] | None, max_bytes: int) -> Answer:
    content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    status = response.status_code
    location = response.headers.get("location")
    if status in _REDIRECTS and location:
        return Answer(status, content_type, location=location)
    if not 200 <= status < 300:
        return Answer(
            status,
            content_type,
            error=f"http: {status} {response.reason_phrase}".strip(),
            transient=status in _TRANSIENT,
            retry_after=response.headers.get("retry-after"),
        )
    if accepted is not None and content_type not in accepted:
        return Answer(status, content_type, error=f"content_type: {content_type or 'none'} is not read")
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > max_bytes:
            if accepted is None:  # of a long robots.txt the beginning counts
                return Answer(status, content_type, body=bytes(body[:max_bytes]))
            return Answer(status, content_type, error=f"too_large: more than {max_bytes} bytes")
    return Answer(status, content_type, response.charset_encoding, bytes(body))
