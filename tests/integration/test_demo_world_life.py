"""How the demo's outside world begins, ends, and holds replies back after their effect."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest

from perdure.demo import world as worlds
from tests.integration.demo_world_clients import Count, ask, found

World = worlds.World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with worlds.start(tmp_path_factory.mktemp("world")) as running:
        yield running


def until(happened: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    end, pulse = time.monotonic() + seconds, threading.Event()
    while not happened():
        assert time.monotonic() < end, f"in vain: {what}"
        pulse.wait(0.02)


# -- faults ------------------------------------------------------------------------------------------------

# Each client does one thing and is killed while it waits for the answer.
CLIENTS = {
    "s3": "import obstore; from obstore.store import S3Store;"
    " obstore.put(S3Store({s3[bucket]!r}, endpoint={s3[endpoint]!r}, access_key_id={s3[access_key]!r},"
    " secret_access_key={s3[secret_key]!r}, region={s3[region]!r}, client_options={{'allow_http': True}}),"
    " 'held.txt', b'held', mode='create')",
    "mail": "import smtplib; smtplib.SMTP({smtp[host]!r}, {smtp[port]}, local_hostname='localhost').sendmail("
    "'a@example.org', ['b@example.org'], 'Message-ID: <held@example.org>\\n\\nheld\\n')",
    "webhook": "import urllib.request as r; r.build_opener(r.ProxyHandler({{}})).open("
    "r.Request({webhook_url!r}, b'held', {{'Idempotency-Key': 'held'}}))",
}


@pytest.mark.parametrize(("server", "word"), [("s3", "uploads"), ("mail", "mails"), ("webhook", "notices")])
def test_a_client_killed_before_the_reply_has_had_its_effect(world: World, server: str, word: str) -> None:
    before = Count(world)
    world.pause(server, max_seconds=60)
    client = subprocess.Popen([sys.executable, "-c", CLIENTS[server].format(**world.endpoints())])
    try:
        world.wait_held(server)
        assert client.poll() is None
        assert before.risen() == {word: 1}
    finally:
        client.kill()
        client.wait()
    world.wait_held(server, 0)
    assert before.risen() == {word: 1}
    if server == "mail":
        assert found(world, "<held@example.org>") == 1


def test_a_key_in_flight_is_refused_and_a_released_reply_arrives(world: World) -> None:
    before, url, key = Count(world), world.webhook_url, {"Idempotency-Key": "w-3"}
    world.pause("webhook", max_seconds=60)
    replies: list[bytes] = []
    waiting = threading.Thread(target=lambda: replies.append(ask("POST", url, b"slow", key)[1]))
    waiting.start()
    world.wait_held("webhook")
    assert ask("POST", url, b"slow", key)[0] == 409
    assert replies == []
    world.release("webhook")
    waiting.join(10)
    assert [json.loads(reply)["notice"] for reply in replies] == [world.events("webhook")[-2]["notice"]]
    assert ask("POST", url, b"slow", key)[2]["Idempotent-Replayed"] == "true"
    assert before.risen() == {"notices": 1, "repeated_notices": 1, "refused_notices": 1}
    assert world.held("webhook") == 0


def test_a_reply_is_held_no_longer_than_asked(world: World) -> None:
    world.pause("webhook", max_seconds=0.2)
    began = time.monotonic()
    assert ask("POST", world.webhook_url, b"brief")[0] == 201
    assert time.monotonic() - began >= 0.2
    with pytest.raises(worlds.WorldError, match="holds 0 replies"):
        world.wait_held("webhook", timeout_seconds=0.05)


# -- beginning and end -------------------------------------------------------------------------------------


def is_alive(pid: int) -> bool:
    # A killed process stays a zombie until somebody reaps it, so the pid alone says nothing.
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip()[:1] not in {"", "Z"}


def sockets_of(store: int) -> list[Path]:
    shown = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(store)], capture_output=True, text=True, check=True)
    ports = set(re.findall(r"port(?:\.grpc)?=(\d+)", shown.stdout)) - {"0"}
    return [path for port in ports for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock")]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/net")
def test_nothing_listens_beyond_loopback(world: World) -> None:
    inodes = set()
    for pid in world.pids().values():
        links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()]
        inodes |= {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}
    listening = []
    for table in ("tcp", "tcp6"):
        rows = [line.split() for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
        listening += [row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes]
    assert len(listening) >= 8 + 8  # eight of ours, eight of the store
    assert set(listening) == {socket.inet_aton("127.0.0.1")[::-1].hex().upper()}


def test_stop_leaves_nothing_behind_and_may_be_called_again(tmp_path: Path) -> None:
    with worlds.start(tmp_path) as mine:
        pids = mine.pids()
        assert all(is_alive(pid) for pid in pids.values())
        sockets = sockets_of(pids["store"])
        assert sockets
        mine.stop()
        assert not any(is_alive(pid) for pid in pids.values())
        assert not any(path.exists() for path in sockets)
        assert mine.counts()["uploads"] == 0


@pytest.mark.parametrize("in_thread", [False, True])
def test_the_servers_die_with_their_parent(tmp_path: Path, in_thread: bool) -> None:
    # The kernel's signal and the pipe each have to do it alone: from a thread there is only the pipe.
    start = f"worlds.append(world.start(pathlib.Path({str(tmp_path)!r})))"
    run = f"t = threading.Thread(target=lambda: {start}); t.start(); t.join()" if in_thread else start
    script = f"import json, pathlib, threading, time\nfrom perdure.demo import world\nworlds = []\n{run}\n"
    script += "print(json.dumps(worlds[0].pids()), flush=True)\ntime.sleep(600)\n"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        try:
            pids: dict[str, int] = json.loads(cast("str", parent.stdout and parent.stdout.readline()))
            assert set(pids) == {"s3", "mail", "site", "webhook", "store"}
            assert all(is_alive(pid) for pid in pids.values())
            sockets = sockets_of(pids["store"])
        finally:
            parent.kill()
    until(lambda: not any(is_alive(pid) for pid in pids.values()), "the servers end", seconds=60.0)
    until(lambda: sockets != [] and not any(path.exists() for path in sockets), "the sockets are taken away")


ENDING = """
import subprocess, sys
from perdure.demo.world import child
store = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
def end():
    print("ending", flush=True)
    store.wait()
print(store.pid, flush=True)
child.serve_until_orphaned(end)
"""


def test_a_server_whose_end_has_begun_is_not_kept_by_the_signal_that_comes_too() -> None:
    command = [sys.executable, "-c", ENDING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        store = int(server.stdout.readline())
        server.stdin.close()
        assert server.stdout.readline() == "ending\n"
        server.send_signal(signal.SIGTERM)
        os.kill(store, signal.SIGKILL)
        try:
            assert server.wait(timeout=60) == 0
        finally:
            server.kill()


def test_the_foreground_world_says_where_it_is_and_what_it_counted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "perdure.demo.world", "--folder", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as shown:
        decoder, text = json.JSONDecoder(), ""
        assert shown.stdout is not None
        while not text.endswith("\n}\n"):
            text += shown.stdout.readline()
        told, _ = decoder.raw_decode(text)
        assert ask("POST", told["webhook_url"], b"x")[0] == 201
        shown.send_signal(signal.SIGTERM)
        assert json.loads(shown.stdout.read())["counts"]["notices"] == 1
    assert shown.returncode == 0


def test_a_server_that_cannot_start_says_why_and_the_others_go_on(tmp_path: Path) -> None:
    with worlds.start(tmp_path, servers=["site", "webhook"]) as mine:
        port = urlsplit(mine.site_url).port
        mine.kill("site")
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", cast("int", port)))
            taken.listen()
            with pytest.raises(worlds.WorldError, match="Address already in use"):
                mine.restart("site")
        assert ask("POST", mine.webhook_url, b"x")[0] == 201
        with pytest.raises(worlds.WorldError, match="not part of this world"):
            mine.pause("mail")
