"""Reads pages, writes a report that cites them, and sends it: a script that survives being killed.

There is no recovery code here. After a crash `main` simply runs again from the top: each call that has a receipt
returns it without being made again, so the arguments of the calls below are the same in every life. What would
differ from life to life (the time of day) comes from `run`, which stores it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from perdure import AsyncRun
from perdure.toolbox.crawl import Page, fetch
from perdure.toolbox.extract import Extract, extract
from perdure.toolbox.files import write_file
from perdure.toolbox.mail import send_mail
from perdure.toolbox.notify import notify
from perdure.toolbox.pdf import Section, render_pdf
from perdure.toolbox.summarise import summarise
from perdure.toolbox.upload import upload


@dataclass(frozen=True, slots=True)
class Read:
    """A page that was asked for, and what a person would read of it; nothing if it could not be had."""

    page: Page
    content: Extract | None

    @property
    def problem(self) -> str | None:
        """Why the page is not in the report."""
        if self.page["error"] is not None:
            return self.page["error"]
        return None if self.content and self.content["text"] else "there is no text on it"


async def main(run: AsyncRun) -> dict[str, Any]:
    """Return what was made and where it went."""
    inputs = run.inputs
    today = (await run.now())[:10]  # stored once: a resume on the next day must not date the report anew

    async with run.step("read the pages", phase="crawl"):
        found = await crawl(run, inputs["urls"], inputs["max_pages"], inputs["concurrency"])
    unread = [(read.page["url"], read.problem) for read in found if read.problem is not None]

    async with run.step("write the report", phase="synthesize"):
        sections = await summaries(run, found, inputs["sentences"])
        if not sections:
            raise RuntimeError(f"no page could be read: {unread}")
        text = as_markdown(inputs["title"], today, sections, unread)
        report = await run.call(write_file, "report.md", text)
    cited = [read.page["final_url"] for read in found if read.problem is None]
    run.satisfy("sources cited", evidence=cited)

    async with run.step("make the PDF", phase="render"):
        pages = [*sections, *appendix(unread)]
        subtitle = f"{today}, from {len(cited)} pages"
        pdf = await run.call(render_pdf, inputs["title"], pages, output="report.pdf", subtitle=subtitle)

    async with run.step("store the PDF", phase="upload"):
        stored = await upload(pdf["path"], f"{run.run_id}/report.pdf")

    async with run.step("mail the PDF", phase="send"):
        body = letter(inputs["title"], len(cited), unread, stored["url"], pdf["sha256"])
        mail = await send_mail(inputs["to"], inputs["title"], body, attachments=[pdf["path"]])

    async with run.step("tell the others", phase="notify"):
        await notify("", "report.ready", {"title": inputs["title"], "url": stored["url"], "sha256": pdf["sha256"]})

    return {
        "report": report["path"],
        "pdf": pdf["path"],
        "sha256": pdf["sha256"],
        "url": stored["url"],
        "message_id": mail["message_id"],
        "pages_read": len(cited),
        "pages_not_read": len(unread),
    }


# --- crawl ---------------------------------------------------------------------------------------------------


async def crawl(run: AsyncRun, urls: list[str], max_pages: int, concurrency: int) -> list[Read]:
    """Follow links within the sites of `urls`, nearest first; each page is a call with a receipt of its own.

    The order is that of the links, never that of the replies, so that the same pages make the same report.
    """
    slots = asyncio.Semaphore(concurrency)

    async def read(url: str) -> Read:
        async with slots:
            page = await fetch(url)
            html = page["html"]
            content = None if html is None else await run.call(extract, html, page["final_url"])
            return Read(page, content)

    sites = {site(url) for url in urls}
    seen = dict.fromkeys(urls)
    layer = list(seen)
    found: list[Read] = []
    while layer and len(found) < max_pages:
        found += await asyncio.gather(*(read(url) for url in layer[: max_pages - len(found)]))
        links = [link for one in found if one.content for link in one.content["links"] if site(link) in sites]
        layer = [link for link in dict.fromkeys(links) if link not in seen]
        seen.update(dict.fromkeys([*layer, *(one.page["final_url"] for one in found)]))
    return found


def site(url: str) -> str:
    """Return the host of a URL, `www.` apart."""
    return (urlsplit(url).hostname or "").removeprefix("www.")


# --- write ---------------------------------------------------------------------------------------------------


async def summaries(run: AsyncRun, found: list[Read], sentences: int) -> list[Section]:
    """Return one section for each page that could be read, with its address as the source."""

    async def section(read: Read) -> Section:
        assert read.content is not None
        title = read.content["title"] or read.page["final_url"]
        text = read.content["text"].removeprefix(title).lstrip()  # it stands in the heading already
        summary = await run.call(summarise, text, sentences)
        return {"heading": title, "paragraphs": summary.split("\n\n"), "source": read.page["final_url"]}

    return list(await asyncio.gather(*(section(read) for read in found if read.problem is None)))


def appendix(unread: list[tuple[str, str]]) -> list[Section]:
    """Return the section about pages that are missing, if any are."""
    lines = [f"{url}: {problem}" for url, problem in unread]
    return [{"heading": "Appendix: pages that could not be read", "paragraphs": lines}] if lines else []


def as_markdown(title: str, today: str, sections: list[Section], unread: list[tuple[str, str]]) -> str:
    """Return the report as Markdown, each section with the number of its source."""
    parts = [f"# {title}", f"Written on {today} from {len(sections)} pages."]
    for number, section in enumerate(sections, start=1):
        parts += [
            f"## {section['heading']}",
            *section["paragraphs"][:-1],
            f"{section['paragraphs'][-1]} [{number}]",
        ]
    parts += ["## Sources", "\n".join(f"{n}. <{s.get('source')}>" for n, s in enumerate(sections, start=1))]
    for section in appendix(unread):
        parts += [f"## {section['heading']}", "\n".join(f"- {line}" for line in section["paragraphs"])]
    return "\n\n".join(parts) + "\n"


def letter(title: str, read: int, unread: list[tuple[str, str]], url: str, sha256: str) -> str:
    """Return the text of the mail."""
    missing = f" {len(unread)} could not be read; the appendix says why." if unread else ""
    return (
        f'The report "{title}" is ready, from {read} pages.{missing}\n\n'
        f"It is attached, and stored at {url}\nSHA-256 {sha256}\n"
    )
