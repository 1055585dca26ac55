"""The pages of the web site: prose kept as plain text beside this module, put into HTML by one template."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from perdure.demo.world.tally import PRIVATE_PATH

_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<meta name="author" content="The Perdure authors">
</head>
<body>
<header><a href="/">{site}</a></header>
<main>
<article>
<h1>{title}</h1>
{body}
</article>
</main>
<footer><p>{source}</p></footer>
</body>
</html>
"""
SITE_TITLE = "Word for Word: how messages were made to arrive before there were computers"
INDEX = "index"
MISSING_PATH = "/errata.html"
ROBOTS = f"User-agent: *\nDisallow: {PRIVATE_PATH}\n"


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its address on the site, its title, where its facts come from, and its paragraphs.

    ``links`` are names of other pages; ``*`` stands for all of them.
    """

    name: str
    title: str
    source: str
    links: tuple[str, ...]
    paragraphs: tuple[str, ...]

    @property
    def path(self) -> str:
        return f"/{self.name}.html"


def load_pages() -> dict[str, Page]:
    """Read every page of the package, by name.

    A file holds ``title:``, ``source:`` and ``links:`` lines, an empty line, then paragraphs parted by empty
    lines.
    """
    folder = resources.files(__package__ or "perdure.demo.world") / "prose"
    texts = {item.name.removesuffix(".txt"): item.read_text("utf-8") for item in folder.iterdir()}
    return {name: _parse(name, texts[name]) for name in sorted(texts)}


def _parse(name: str, text: str) -> Page:
    head, *paragraphs = text.strip().split("\n\n")
    fields = dict(line.split(": ", 1) for line in head.split("\n"))
    joined = tuple(" ".join(paragraph.split("\n")) for paragraph in paragraphs)
    return Page(name, fields["title"], fields["source"], tuple(fields["links"].split()), joined)


def render(page: Page, pages: Mapping[str, Page]) -> bytes:
    """Return the page as HTML, its links resolved against ``pages``."""
    body = [f"<p>{html.escape(paragraph, quote=False)}</p>" for paragraph in page.paragraphs]
    body.append(_list_of_links(page, pages))
    return _TEMPLATE.format(
        title=html.escape(page.title),
        site=html.escape(SITE_TITLE),
        body="\n".join(body),
        source=html.escape(page.source, quote=False),
    ).encode()


def _list_of_links(page: Page, pages: Mapping[str, Page]) -> str:
    named = pages if page.links == ("*",) else page.links
    shown = [(pages[name].path, pages[name].title) for name in named if name not in {page.name, INDEX}]
    if page.name == INDEX:
        shown.append((MISSING_PATH, "Errata"))
    items = "\n".join(f'<li><a href="{path}">{html.escape(title)}</a></li>' for path, title in shown)
    return f"<nav>\n<ul>\n{items}\n</ul>\n</nav>"
