"""Reading web pages: ``fetch`` one (each with a receipt of its own) or ``crawl`` a site in one call.

An agent that calls ``fetch`` for each page loses at most one page to a crash; ``crawl`` is the convenience
for small sites. Both answer with records, not exceptions: a page that cannot be had is a result, with the
reason in ``error``.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypedDict

from perdure.ports.tool import ToolFailed, tool
from perdure.toolbox._web import USER_AGENT, Answer, Web, refusal, site_of, tls_context
from perdure.toolbox.extract import page_links

ACCEPTED = frozenset({"text/html", "application/xhtml+xml", "text/plain"})
MAX_PAGE_BYTES = 2 * 1024 * 1024
_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([a-zA-Z0-9_.:-]{1,40})""", re.IGNORECASE)


class Page(TypedDict):
    """What became of one URL.

    ``error`` is None, or one word and a colon (``http network redirect robots domain content_type too_large
    url``) and what happened. ``sha256`` and ``size_bytes`` are of the body as it was sent, after
    decompression.
    """

    url: str
    final_url: str
    status: int | None
    content_type: str
    sha256: str | None
    size_bytes: int
    html: str | None
    error: str | None


def _text(answer: Answer, body: bytes) -> str:
    declared = answer.charset
    if declared is None:
        found = _META_CHARSET.search(body[:4096])
        declared = found.group(1).decode("ascii") if found else "utf-8"
    try:
        text = body.decode(declared, "replace")
    except (LookupError, ValueError):  # a charset nobody knows, or a codec that is none of text
        text = body.decode("utf-8", "replace")
    # UTF-7 and the escape codecs can make lone surrogates, which no ledger can store.
    return text.encode("utf-8", "replace").decode("utf-8")


def _page(url: str, final_url: str, answer: Answer) -> Page:
    body = answer.body
    return {
        "url": url,
        "final_url": final_url,
        "status": answer.status,
        "content_type": answer.content_type,
        "sha256": None if body is None else hashlib.sha256(body).hexdigest(),
        "size_bytes": 0 if body is None else len(body),
        "html": None if body is None else _text(answer, body),
        "error": answer.error,
    }


@asynccontextmanager
async def _web(
    *, concurrency: int, max_bytes: int, timeout_seconds: float, delay_seconds: float
) -> AsyncGenerator[Web, None]:
    import httpx2

    async with httpx2.AsyncClient(
        headers={"User-Agent": USER_AGENT, "Accept": ", ".join(sorted(ACCEPTED))},
        timeout=timeout_seconds,
        limits=httpx2.Limits(max_connections=concurrency),
        verify=tls_context(),
        follow_redirects=False,
    ) as client:
        yield Web(
            client,
            accepted=ACCEPTED,
            max_bytes=max_bytes,
            timeout_seconds=timeout_seconds,
            delay_seconds=delay_seconds,
        )


def _next_layer(layer: list[Page], seen: dict[str, None], allowed: frozenset[str]) -> list[str]:
    seen.update(dict.fromkeys(page["final_url"] for page in layer))
    found: list[str] = []
    for page in layer:
        if page["html"] is None or page["content_type"] == "text/plain":
            continue
        for link in page_links(page["html"], page["final_url"]):
            if link not in seen and refusal(link, allowed) is None:
                seen[link] = None
                found.append(link)
    return found


@tool(side_effect_class="read_only")
async def fetch(
    url: str,
    allowed_domains: list[str] | None = None,
    max_bytes: int = MAX_PAGE_BYTES,
    timeout_seconds: float = 20.0,
    delay_seconds: float = 0.1,
) -> Page:
    """Read one page, as robots.txt allows, and return its record.

    A network error, 429 or 5xx is tried three times in all, with growing random pauses of at most five
    seconds.

    Args:
        url: http or https.
        allowed_domains: where a redirect may lead, subdomains included; the URL's own site when left out,
            ``["*"]`` for anywhere.
        max_bytes: a larger body is not kept.
        timeout_seconds: bound of one request, from connecting to its last byte.
        delay_seconds: least time between two requests of this process to one host.
    """
    allowed = frozenset([site_of(url)] if allowed_domains is None else allowed_domains)
    async with _web(
        concurrency=1, max_bytes=max_bytes, timeout_seconds=timeout_seconds, delay_seconds=delay_seconds
    ) as web:
        return _page(url, *await web.get(url, allowed))


@tool(side_effect_class="read_only")
async def crawl(
    start_urls: list[str],
    max_pages: int = 20,
    same_site: bool = True,
    concurrency: int = 4,
    max_bytes: int = MAX_PAGE_BYTES,
    timeout_seconds: float = 20.0,
    delay_seconds: float = 0.1,
) -> list[Page]:
    """Follow links from ``start_urls``, nearest first, and return one record for each page asked for.

    The order is that of the links, never that of the replies: the same site gives the same list.

    Args:
        start_urls: where to begin.
        max_pages: how many to ask for at most, failures included.
        same_site: stay on the sites of ``start_urls``, subdomains included.
        concurrency: requests in flight at most.
        max_bytes: a larger body is not kept.
        timeout_seconds: bound of one request, from connecting to its last byte.
        delay_seconds: least time between two requests of this process to one host.

    Raises:
        ToolFailed: ``max_pages`` or ``concurrency`` is less than one.
    """
    if max_pages < 1 or concurrency < 1:
        raise ToolFailed("max_pages and concurrency must be at least 1", retry=False)
    allowed = frozenset(site_of(url) for url in start_urls) if same_site else frozenset({"*"})
    gate = asyncio.Semaphore(concurrency)
    pages: list[Page] = []
    async with _web(
        concurrency=concurrency,
        max_bytes=max_bytes,
        timeout_seconds=timeout_seconds,
        delay_seconds=delay_seconds,
    ) as web:

        async def one(url: str) -> Page:
            async with gate:
                return _page(url, *await web.get(url, allowed))

        seen = dict.fromkeys(start_urls)
        frontier = list(seen)
        while frontier and len(pages) < max_pages:
            layer = await asyncio.gather(*(one(url) for url in frontier[: max_pages - len(pages)]))
            pages.extend(layer)
            frontier = _next_layer(layer, seen, allowed)
    return pages
