"""The web site of the demo: ``python -m perdure.demo.world.site --folder DIR``.

Real pages that link to one another, and what real sites do to a crawler: a robots.txt with a page that is not
to be asked for, a slow page, a link to nowhere, a page that answers 500 once.
"""

from __future__ import annotations

import threading
import time
from urllib.parse import urlsplit

from perdure.demo.world import child, pages
from perdure.demo.world.leash import die_with
from perdure.demo.world.loopback import Handler, LoopbackServer, serve_in_thread
from perdure.demo.world.serverlog import ServerLog

SLOW_PATH = "/great-eastern.html"
SLOW_SECONDS = 1.5
FLAKY_PATH = "/clayton-tunnel.html"
_HTML = "text/html; charset=utf-8"


class Site:
    """What the site answers, and the one failure it has in store."""

    def __init__(self) -> None:
        loaded = pages.load_pages()
        self._bodies = {page.path: pages.render(page, loaded) for page in loaded.values()}
        self._bodies["/"] = self._bodies[loaded[pages.INDEX].path]
        self._failures_left = 1
        self._lock = threading.Lock()

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Return status, content type and body for a path."""
        if path == "/robots.txt":
            return 200, "text/plain; charset=utf-8", pages.ROBOTS.encode()
        if path == FLAKY_PATH and self._fails_now():
            return 500, _HTML, b"<!doctype html><title>Error</title><p>The server failed. Try again."
        body = self._bodies.get(path)
        if body is None:
            return 404, _HTML, b"<!doctype html><title>Not found</title><p>There is no such page."
        return 200, _HTML, body

    def _fails_now(self) -> bool:
        with self._lock:
            failing = self._failures_left > 0
            self._failures_left -= failing
            return failing


def make_handler(site: Site, log: ServerLog) -> type[Handler]:
    """Return the request handler of one site with one log."""

    class SiteHandler(Handler):
        def handle_request(self, body: bytes) -> None:
            path = urlsplit(self.path).path
            status, content_type, answer = (
                site.answer(path) if self.command in {"GET", "HEAD"} else (405, "text/plain", b"")
            )
            if path == SLOW_PATH:
                time.sleep(SLOW_SECONDS)
            log.append(
                "request",
                method=self.command,
                path=path,
                status=status,
                bytes=len(answer),
                user_agent=self.headers.get("User-Agent", ""),
            )
            self.reply(status, answer, {"Content-Type": content_type})

    return SiteHandler


def main() -> None:
    """Serve until the parent is gone."""
    options = child.parse_options("site")
    die_with(options.leash)
    log = ServerLog(options.folder / "logs" / "site.jsonl")
    server = LoopbackServer(options.ports[0], make_handler(Site(), log))
    serve_in_thread(server)
    child.announce(port=server.server_port)
    child.serve_until_orphaned()


if __name__ == "__main__":
    main()
