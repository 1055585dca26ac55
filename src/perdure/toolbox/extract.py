"""The readable part of a page: title, main text and links, by trafilatura and lxml."""

from __future__ import annotations

from typing import Any, TypedDict, cast
from urllib.parse import urldefrag, urljoin, urlsplit

from perdure.ports.tool import tool


class Extract(TypedDict):
    """What a person would read of a page, and where it leads."""

    title: str
    text: str
    links: list[str]


def _absolute(base: str, target: str) -> str | None:
    try:
        joined = urldefrag(urljoin(base, target.strip())).url
        parts = urlsplit(joined)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:  # a port or an IPv6 address that is none
        return None
    return joined if usable else None


def page_links(html: str, url: str) -> list[str]:
    """Return the http and https targets of a page's links: absolute, without fragment, in order, each once.

    Args:
        html: the page.
        url: where it was found; ``<base href>`` is obeyed (HTML Living Standard, "document base URL").
    """
    from lxml import html as untyped  # type: ignore[import-untyped]

    lxml_html = cast(Any, untyped)
    try:
        # As bytes: lxml refuses text that carries an encoding declaration of its own.
        parser = lxml_html.HTMLParser(encoding="utf-8")
        tree = lxml_html.document_fromstring(html.encode("utf-8", "replace"), parser=parser)
    except lxml_html.etree.ParserError:  # an empty document
        return []
    base = urljoin(url, str(tree.xpath("string(//base/@href)")).strip())
    found = (_absolute(base, str(target)) for target in tree.xpath("//a/@href | //area/@href"))
    return list(dict.fromkeys(link for link in found if link is not None))


@tool(side_effect_class="read_only")
def extract(html: str, url: str) -> Extract:
    """Return a page's title, its main text (paragraphs apart by a blank line) and its links.

    Args:
        html: the page.
        url: where it was found; relative links are read against it.
    """
    import trafilatura

    document = trafilatura.bare_extraction(html, url=url, with_metadata=True, include_comments=False)
    if document is None or isinstance(document, dict):
        return {"title": "", "text": "", "links": page_links(html, url)}
    paragraphs = (line.strip() for line in (document.text or "").splitlines())
    return {
        "title": " ".join((document.title or "").split()),
        "text": "\n\n".join(paragraph for paragraph in paragraphs if paragraph),
        "links": page_links(html, url),
    }
