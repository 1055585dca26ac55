"""Fetch and crawl against a real server: what is asked for, how often, in which order, what is left alone."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import threading
from http.server import BaseHTTPRequestHandler

import pytest

from perdure.ports.tool import ToolFailed
from perdure.toolbox.crawl import Page, crawl, fetch
from tests.integration.toolbox_support import Reply, closed_port, html, serve


def get(url: str, **options: object) -> Page:
    return asyncio.run(fetch.plain(url, delay_seconds=0.0, **options))  # type: ignore[arg-type]


def walk(urls: list[str], **options: object) -> list[Page]:
    return asyncio.run(crawl.plain(urls, delay_seconds=0.0, **options))  # type: ignore[arg-type]


def fails_first(times: int, then: Reply, failure: Reply = (500, {}, b"")) -> object:
    left = [times]

    def route(handler: BaseHTTPRequestHandler) -> Reply:
        left[0] -= 1
        return failure if left[0] >= 0 else then

    return route


def test_a_page_is_recorded_with_its_hash() -> None:
    with serve({"/a": html(text="Grüße")}) as site:
        page = get(f"{site.url}/a")
    body = "<p>Grüße</p>".encode()
    assert page == {
        "url": f"{site.url}/a",
        "final_url": f"{site.url}/a",
        "status": 200,
        "content_type": "text/html",
        "sha256": hashlib.sha256(body).hexdigest(),
        "size_bytes": len(body),
        "html": "<p>Grüße</p>",
        "error": None,
    }


def test_a_server_error_is_tried_again_and_a_refusal_is_not() -> None:
    routes = {
        "/once": fails_first(1, html(text="ok")),
        "/later": fails_first(2, html(text="ok"), (503, {"Retry-After": "0"}, b"")),
        "/always": (502, {}, b""),
        "/absent": (404, {}, b""),
    }
    with serve(routes) as site:  # type: ignore[arg-type]
        pages = {path: get(site.url + path) for path in routes}
        asked = {path: site.paths().count(path) for path in routes}
    assert asked == {"/once": 2, "/later": 3, "/always": 3, "/absent": 1}
    assert pages["/once"]["html"] == pages["/later"]["html"] == "<p>ok</p>"
    assert (pages["/always"]["status"], pages["/always"]["error"]) == (502, "http: 502 Bad Gateway")
    assert (pages["/absent"]["status"], pages["/absent"]["error"]) == (404, "http: 404 Not Found")
    assert pages["/absent"]["html"] is None


def test_a_cut_connection_is_tried_again() -> None:
    cut = [2]

    def route(handler: BaseHTTPRequestHandler) -> Reply | None:
        cut[0] -= 1
        return None if cut[0] >= 0 else html(text="whole")

    with serve({"/": route}) as site:
        page = get(f"{site.url}/")
        assert site.paths() == ["/", "/", "/"]
    assert page["html"] == "<p>whole</p>"


def test_nobody_listening_is_a_record_not_an_exception() -> None:
    page = get(f"http://127.0.0.1:{closed_port()}/")
    assert (page["status"], page["html"]) == (None, None)
    assert page["error"] is not None and "ConnectError" in page["error"]


@pytest.mark.parametrize("encoding", ["plain", "gzip"])
def test_a_body_above_the_cap_is_not_kept_whatever_its_header_says(encoding: str) -> None:
    sent = b"x" * 100_000
    headers = {"Content-Type": "text/plain"} | ({"Content-Encoding": "gzip"} if encoding == "gzip" else {})
    body = gzip.compress(sent) if encoding == "gzip" else sent
    with serve({"/big": (200, headers, body)}) as site:
        capped = get(f"{site.url}/big", max_bytes=99_999)
        exact = get(f"{site.url}/big", max_bytes=100_000)
    assert (capped["error"], capped["html"]) == ("too_large: more than 99999 bytes", None)
    assert (exact["error"], exact["size_bytes"]) == (None, 100_000)


def test_an_endless_body_is_left_at_the_cap() -> None:
    gone = threading.Event()

    def route(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"x" * 65536)
        except OSError:
            gone.set()

    with serve({"/": route}) as site:
        page = get(f"{site.url}/", max_bytes=1_000_000)
        assert gone.wait(4)
    assert page["error"] == "too_large: more than 1000000 bytes"


def test_a_body_that_drips_ends_with_the_request_time() -> None:
    done = threading.Event()

    def route(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        try:
            while not done.wait(0.05):
                handler.wfile.write(b"x")
        except OSError:
            return

    with serve({"/": route}) as site:
        page = get(f"{site.url}/", timeout_seconds=0.3)
        done.set()
    assert page["error"] is not None and page["error"].startswith("network: TimeoutError")


def test_other_content_types_are_left_alone() -> None:
    with serve({"/p": (200, {"Content-Type": "application/pdf"}, b"%PDF"), "/n": (200, {}, b"?")}) as site:
        assert get(f"{site.url}/p")["error"] == "content_type: application/pdf is not read"
        assert get(f"{site.url}/n")["error"] == "content_type: none is not read"


@pytest.mark.parametrize(
    ("header", "body", "text"),
    [
        ("text/html; charset=iso-8859-1", b"caf\xe9", "caf\u00e9"),
        ("text/html", b'<meta charset="windows-1252">\x80', '<meta charset="windows-1252">\u20ac'),
        ("text/html; charset=nonsense", "\u00e9".encode(), "\u00e9"),
        ("text/html; charset=idna", b"plain", "plain"),
        ("text/html", b"\xff", "\ufffd"),
        ("text/html; charset=utf-7", b"+2AA-", "?"),
    ],
)
def test_text_is_decoded_as_declared_and_can_always_be_stored(header: str, body: bytes, text: str) -> None:
    with serve({"/": (200, {"Content-Type": header}, body)}) as site:
        page = get(f"{site.url}/")
    assert page["html"] == text
    assert page["html"].encode("utf-8")


def test_robots_rules_are_obeyed_for_the_page_and_for_a_redirect_into_it() -> None:
    rules = b"User-agent: *\nDisallow: /private\n"
    routes = {
        "/robots.txt": (200, {"Content-Type": "text/plain"}, rules),
        "/private/a": html(text="secret"),
        "/open": html(text="open"),
        "/to-private": (302, {"Location": "/private/a"}, b""),
    }
    with serve(routes) as site:  # type: ignore[arg-type]
        assert get(f"{site.url}/open")["html"] == "<p>open</p>"
        for path in ("/private/a", "/to-private"):
            page = get(site.url + path)
            assert page["error"] == "robots: the site's robots.txt does not allow it"
            assert page["final_url"] == f"{site.url}/private/a"
        assert site.paths() == ["/open", "/to-private"]
        assert [r.path for r in site.requests].count("/robots.txt") == 1


def test_a_site_whose_robots_file_fails_is_not_read_and_one_without_is() -> None:
    with serve({"/robots.txt": (503, {"Retry-After": "0"}, b""), "/": html()}) as site:
        page = get(f"{site.url}/")
        assert page["error"] == ("robots: robots.txt cannot be read (http: 503 Service Unavailable)")
        assert site.paths() == []
    with serve({"/robots.txt": (404, {}, b""), "/": html()}) as site:
        assert get(f"{site.url}/")["error"] is None


def test_a_redirect_is_followed_on_the_site_and_refused_off_it() -> None:
    with serve({"/b": html(text="b")}) as site:
        site.routes["/a"] = (301, {"Location": "/b#part"}, b"")
        site.routes["/off"] = (302, {"Location": f"http://localhost:{site.port}/b"}, b"")
        site.routes["/file"] = (302, {"Location": "file:///etc/passwd"}, b"")
        site.routes["/userinfo"] = (302, {"Location": f"http://u:p@127.0.0.1:{site.port}/b"}, b"")
        site.routes["/broken"] = (302, {"Location": "http://[::1"}, b"")
        site.routes["/loop"] = (302, {"Location": "/loop"}, b"")
        page = get(f"{site.url}/a")
        assert (page["url"], page["html"]) == (f"{site.url}/a", "<p>b</p>")
        assert get(f"{site.url}/off")["error"] == "domain: localhost is not an allowed domain"
        assert site.paths() == ["/a", "/b", "/off"]
        assert get(f"{site.url}/off", allowed_domains=["localhost", "127.0.0.1"])["html"] == "<p>b</p>"
        assert get(f"{site.url}/off", allowed_domains=["*"])["html"] == "<p>b</p>"
        assert get(f"{site.url}/file")["error"] == "url: only http and https can be read"
        assert get(f"{site.url}/userinfo")["error"] == "url: credentials in a URL would be stored with it"
        assert get(f"{site.url}/broken")["error"] == "url: Invalid IPv6 URL"
        site.requests.clear()
        assert get(f"{site.url}/loop")["error"] == "redirect: more than 5"
        assert site.paths() == ["/loop"] * 6


@pytest.mark.parametrize("url", ["ftp://example.org/", "example.org", "http://", "http://[::1", "http://a:b/"])
def test_what_is_no_web_address_is_a_record(url: str) -> None:
    error = get(url)["error"]
    assert error is not None and error.startswith("url: ")


def test_a_crawl_goes_nearest_first_and_its_order_is_that_of_the_links() -> None:
    last_asked = threading.Event()

    def slow(handler: BaseHTTPRequestHandler) -> Reply:
        last_asked.wait(4)  # answers only after its right-hand neighbour was asked for
        return html("/a1", text="a")

    def quick(handler: BaseHTTPRequestHandler) -> Reply:
        last_asked.set()
        return html("/b1", "/a1", text="b")

    with serve(
        {
            "/": html("/a", "/b", "/b#again", "http://localhost:1/off", "mailto:x@example.org"),
            "/a": slow,
            "/b": quick,
            "/a1": html("/", text="a1"),
            "/b1": (404, {}, b""),
        }
    ) as site:
        pages = walk([f"{site.url}/"])
        assert [page["url"].removeprefix(site.url) for page in pages] == ["/", "/a", "/b", "/a1", "/b1"]
        assert [page["status"] for page in pages] == [200, 200, 200, 200, 404]
        assert sorted(site.paths()) == sorted(["/", "/a", "/b", "/a1", "/b1"])
        site.requests.clear()
        short = walk([f"{site.url}/"], max_pages=3)
        assert short == pages[:3]
        assert len(site.paths()) == 3


def test_no_more_requests_are_in_flight_than_allowed_and_that_many_are() -> None:
    lock, active, most = threading.Lock(), [0], [0]
    pair = threading.Barrier(2)

    def route(handler: BaseHTTPRequestHandler) -> Reply:
        with lock:
            active[0] += 1
            most[0] = max(most[0], active[0])
        pair.wait(4)  # two at a time, or the barrier breaks and the page fails
        with lock:
            active[0] -= 1
        return html(text="ok")

    names = [f"/p{number}" for number in range(6)]
    with serve({"/": html(*names)} | dict.fromkeys(names, route)) as site:
        pages = walk([f"{site.url}/"], concurrency=2)
    assert [page["error"] for page in pages] == [None] * 7
    assert most[0] == 2


def test_a_crawl_that_could_do_nothing_is_refused() -> None:
    for options in ({"max_pages": 0}, {"concurrency": 0}):
        with pytest.raises(ToolFailed):
            walk(["http://127.0.0.1/"], **options)


def test_both_tools_are_reads() -> None:
    assert {tool.declaration.side_effect_class for tool in (fetch, crawl)} == {"read_only"}
