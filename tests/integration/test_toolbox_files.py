"""Files: what is written is whole, hashed and inside the workspace; nothing outside can be reached."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from perdure.ports.tool import ToolFailed
from perdure.toolbox.files import MAX_READ_BYTES, list_dir, read_file, write_file
from tests.integration.toolbox_support import make_call

ESCAPES = ["../secret", "a/../../secret", "..", "/etc/hostname", "", "\0", "a/\0b"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    inside = tmp_path / "workspace"
    inside.mkdir()
    (tmp_path / "secret").write_text("outside")
    return inside


def test_what_was_written_is_read_back_with_the_same_hash(workspace: Path) -> None:
    call = make_call(workspace)
    stored = write_file.plain("notes/day 1/ä.txt", "Grüße\n", call=call)
    assert stored == {
        "path": "notes/day 1/ä.txt",
        "sha256": hashlib.sha256("Grüße\n".encode()).hexdigest(),
        "size_bytes": 8,
    }
    assert read_file.plain("./notes//day 1/ä.txt", call=call) == {**stored, "content": "Grüße\n"}
    assert (workspace / "notes" / "day 1" / "ä.txt").read_bytes() == "Grüße\n".encode()


def test_writing_again_replaces_the_whole_file(workspace: Path) -> None:
    call = make_call(workspace)
    write_file.plain("a.bin", b"a long first content", call=call)
    write_file.plain("a.bin", b"\x00\xff", call=call)
    assert (workspace / "a.bin").read_bytes() == b"\x00\xff"
    assert [entry["name"] for entry in list_dir.plain(call=call)] == ["a.bin"]
    assert len(os.listdir(workspace)) == 1


@pytest.mark.parametrize("path", ESCAPES)
def test_a_path_out_of_the_workspace_is_refused_by_every_tool(workspace: Path, path: str) -> None:
    call = make_call(workspace)
    for attempt in (
        lambda: write_file.plain(path, "x", call=call),
        lambda: read_file.plain(path, call=call),
        lambda: list_dir.plain(path, call=call),
    ):
        with pytest.raises(ToolFailed) as refusal:
            attempt()
        assert refusal.value.retry is False
    assert (workspace.parent / "secret").read_text() == "outside"
    assert os.listdir(workspace) == []


@pytest.mark.parametrize("target", ["..", "/etc", "inner"])
def test_a_linked_directory_is_never_entered(workspace: Path, target: str) -> None:
    (workspace / "inner").mkdir()
    (workspace / "inner" / "secret").write_text("inside")
    (workspace / "link").symlink_to(target)
    call = make_call(workspace)
    for attempt in (
        lambda: write_file.plain("link/secret", "x", call=call),
        lambda: write_file.plain("link/new/secret", "x", call=call),
        lambda: read_file.plain("link/secret", call=call),
        lambda: list_dir.plain("link", call=call),
    ):
        with pytest.raises(ToolFailed, match="not a directory of the workspace"):
            attempt()
    assert (workspace.parent / "secret").read_text() == "outside"
    assert (workspace / "inner" / "secret").read_text() == "inside"


def test_a_linked_file_is_not_read_and_writing_replaces_the_link_not_its_target(workspace: Path) -> None:
    (workspace / "link").symlink_to(workspace.parent / "secret")
    call = make_call(workspace)
    with pytest.raises(ToolFailed, match="cannot be opened"):
        read_file.plain("link", call=call)
    write_file.plain("link", "mine", call=call)
    assert (workspace.parent / "secret").read_text() == "outside"
    assert not (workspace / "link").is_symlink()
    assert (workspace / "link").read_text() == "mine"


def test_a_failed_write_leaves_neither_a_change_nor_a_temporary_file(workspace: Path) -> None:
    (workspace / "folder").mkdir()
    (workspace / "folder" / "kept").write_text("kept")
    with pytest.raises(ToolFailed, match="is a directory"):
        write_file.plain("folder", "x", call=make_call(workspace))
    assert sorted(os.listdir(workspace)) == ["folder"]
    assert (workspace / "folder" / "kept").read_text() == "kept"


def test_only_regular_utf8_files_below_the_cap_are_read(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "binary").write_bytes(b"\xff\xfe")
    (workspace / "ten").write_bytes(b"0123456789")
    call = make_call(workspace)
    for path, reason in (
        ("pipe", "not a regular file"),
        ("binary", "not UTF-8"),
        ("absent", "there is no file"),
        ("ten/below", "not a directory"),
        (".", "is a directory"),
    ):
        with pytest.raises(ToolFailed, match=reason):
            read_file.plain(path, MAX_READ_BYTES, call=call)
    assert read_file.plain("ten", 10, call=call)["content"] == "0123456789"
    with pytest.raises(ToolFailed, match="larger than 9 bytes"):
        read_file.plain("ten", 9, call=call)


def test_a_listing_is_sorted_and_follows_no_link(workspace: Path) -> None:
    (workspace / "b").write_text("12")
    (workspace / "a").mkdir()
    (workspace / "c").symlink_to("/etc/hostname")
    assert list_dir.plain(call=make_call(workspace)) == [
        {"name": "a", "kind": "directory", "size_bytes": 0},
        {"name": "b", "kind": "file", "size_bytes": 2},
        {"name": "c", "kind": "link", "size_bytes": 0},
    ]


def test_the_classes_are_declared(workspace: Path) -> None:
    declared = {tool.name: tool.declaration.side_effect_class for tool in (write_file, read_file, list_dir)}
    assert declared == {"write_file": "local", "read_file": "read_only", "list_dir": "read_only"}
