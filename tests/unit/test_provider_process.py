"""The provider as a process: it begins again, restarts, ends with its parent, and answers broken requests."""

import http.client
import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perdure.testing.provider.client import Provider, ProviderError
from perdure.testing.provider.request import get, post
from tests.unit.provider_support import keyed

DAY_SECONDS = 86_400


def test_a_provider_that_begins_again_has_forgotten_everything_but_its_log(tmp_path: Path) -> None:
    provider = Provider(tmp_path / "provider.jsonl", fsync=False)
    with provider:
        for path, more in (("create", {"name": "n"}), ("searchable", {"marker": "m"}), ("plain", {})):
            post(f"{provider.url}/{path}", {"what": path, **more})
        keyed(provider, "k", {"what": "keyed"})
        provider.control("plain", reject_before_effect=503)
        provider.begin_again()
        assert provider.counts() == {} and provider.effects() == [] and len(provider.log()) == 5
        assert get(f"{provider.url}/control/counts") == (200, {})
        assert provider.state()["faults_left"] == 0
        assert post(f"{provider.url}/create", {"name": "n"})[0] == 201
    with provider:
        assert provider.counts() == {"n": 1}, "it knows after a restart that it began again"
        assert keyed(provider, "k", {"what": "keyed"})[:2] == (201, False)
        assert get(f"{provider.url}/search?marker=m")[1]["items"] == []


def test_a_provider_does_not_begin_again_while_requests_are_held(
    provider: Provider, background: ThreadPoolExecutor
) -> None:
    provider.control("plain", hold=True)
    reply = background.submit(post, f"{provider.url}/plain", {"what": "mail"})
    provider.wait_for("held")
    with pytest.raises(ProviderError, match="1 requests are held"):
        provider.begin_again()
    assert provider.counts() == {"mail": 1}
    provider.release()
    assert reply.result(5)[0] == 201


def test_a_restarted_provider_remembers_what_it_did(tmp_path: Path) -> None:
    provider = Provider(tmp_path / "provider.jsonl")
    with provider:
        post(f"{provider.url}/create", {"name": "n", "body": "x"})
        keyed(provider, "gone", {"n": 1})
        provider.forget_keys("gone")
        keyed(provider, "kept", {"n": 2})
        post(f"{provider.url}/searchable", {"marker": "m"})
    with pytest.raises(ConnectionRefusedError):
        get(f"{provider.url}/control/state")
    with (tmp_path / "provider.jsonl").open("ab") as log:
        log.write(b'{"n":6,"event":"eff')
    assert len(provider.effects()) == 4
    with provider:
        assert post(f"{provider.url}/create", {"name": "n", "body": "x"})[0] == 412
        assert keyed(provider, "kept", {"n": 2}) == (201, True, {"id": "p3"})
        assert keyed(provider, "gone", {"n": 1}) == (201, False, {"id": "p5"})
        assert [item["id"] for item in get(f"{provider.url}/search?marker=m")[1]["items"]] == ["p4"]
    assert [line["n"] for line in provider.log()] == list(range(1, len(provider.log()) + 1))


def test_the_effect_is_in_the_log_when_the_reply_arrives(provider: Provider) -> None:
    for n in range(50):
        post(f"{provider.url}/plain", {"what": f"mail-{n}"})
        assert provider.log_path.read_bytes().endswith(b"\n")
        assert provider.effects()[-1]["what"] == f"mail-{n}"


def test_a_provider_ends_when_its_standard_input_closes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "perdure.testing.provider.server", "--log", str(tmp_path / "log.jsonl")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    ready = json.loads(process.stdout.readline())
    assert post(f"http://127.0.0.1:{ready['port']}/plain", {})[0] == 201
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_a_provider_that_cannot_start_says_so(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="did not start"):
        Provider(tmp_path / "no" / "such" / "folder").start()


def test_broken_requests_are_answered_and_change_nothing(provider: Provider) -> None:
    port = int(provider.url.rsplit(":", 1)[1])
    broken = [
        (b"nonsense\r\n\r\n", b"400"),
        (b"POST /plain HTTP/1.1\r\nContent-Length: 3\r\n\r\n[1]", b"400"),
        (b"POST /plain HTTP/1.1\r\nContent-Length: 1\r\n\r\n{", b"400"),
        (b"POST /plain HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (b"POST /plain HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", b"413"),
    ]
    for raw, status in broken:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(raw)
            assert connection.makefile("rb").readline().split(b" ")[1] == status
    assert get(f"{provider.url}/search?marker=m&page=x")[0] == 400
    assert provider.effects() == []


def test_connections_are_kept_open(provider: Provider) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(provider.url.rsplit(":", 1)[1]), timeout=5)
    for n in range(1, 4):
        connection.request("POST", "/plain", json.dumps({"n": n}))
        assert json.loads(connection.getresponse().read()) == {"id": f"p{n}"}
    connection.close()


def test_a_header_cannot_smuggle_a_line_break(provider: Provider) -> None:
    with pytest.raises(ValueError, match="line break"):
        post(f"{provider.url}/plain", {}, {"Idempotency-Key": "a\r\nX: y"})
