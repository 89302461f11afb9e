"""Files that an agent reads and writes through us."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle.drivers.acp.driver import MOST, Files
from treadle.drivers.acp.options import NOT_FOUND
from treadle.errors import Denied
from treadle.events import Event, FileChanged
from treadle.session import Access, Confinement, Guards, SessionSpec
from treadle.wire.common.jsonrpc import Fault


class Host:
    def __init__(self, cwd: Path, guards: Guards | None = None, denies: bool = False) -> None:
        self.spec = SessionSpec(cwd=str(cwd), guards=guards or Guards())
        self.used: list[Access] = []
        self.events: list[Event] = []
        self._denies = denies

    async def use(self, access: Access, call: str) -> str:
        self.used.append(access)
        if self._denies:
            raise Fault(-32003, "not allowed")
        return call

    def confined(self) -> Confinement | None:
        return None

    def emit(self, event: Event) -> None:
        self.events.append(event)


async def test_a_file_is_read_whole_or_some_lines_of_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n3\n4\n")
    files = Files(Host(tmp_path))
    for params, content in (
        ({}, "1\n2\n3\n4\n"),
        ({"line": 2}, "2\n3\n4\n"),
        ({"limit": 2}, "1\n2\n"),
        ({"line": 3, "limit": 1}, "3\n"),
        ({"line": 0, "limit": 1}, "1\n"),
        ({"line": 9}, ""),
    ):
        assert await files.read({"path": str(tmp_path / "a"), **params}) == {"content": content}


async def test_what_is_not_there_is_not_found_and_nobody_is_asked(tmp_path: Path) -> None:
    host = Host(tmp_path)
    with pytest.raises(Fault) as fault:
        await Files(host).read({"path": "none"})
    assert fault.value.code == NOT_FOUND and host.used == []


async def test_what_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (MOST + 1))
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    for name in ("big", "pipe", ".", "gone"):
        with pytest.raises(Fault):
            await Files(Host(tmp_path)).read({"path": name})


@pytest.mark.parametrize("params", [{}, {"path": 3}, {"path": "a\0b"}, {"path": "a"}, {"path": "a", "content": 3}])
async def test_a_write_needs_a_path_and_a_text(tmp_path: Path, params: dict[str, Any]) -> None:
    with pytest.raises(Fault):
        await Files(Host(tmp_path)).write(params)


async def test_a_write_is_judged_done_and_told(tmp_path: Path) -> None:
    host = Host(tmp_path)
    files = Files(host)
    await files.write({"path": "deep/a", "content": "one\n"})
    os.chmod(tmp_path / "deep/a", 0o600)
    await files.write({"path": str(tmp_path / "deep/a"), "content": "two\n"})
    assert (tmp_path / "deep/a").read_text() == "two\n"
    assert (tmp_path / "deep/a").stat().st_mode & 0o777 == 0o600
    assert [(access.kind, access.paths) for access in host.used] == [("write", (str(tmp_path / "deep/a"),))] * 2
    changes = [event for event in host.events if isinstance(event, FileChanged)]
    assert [change.change for change in changes] == ["added", "modified"]
    assert files.written == {str(tmp_path / "deep/a")}


async def test_what_is_not_allowed_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(Fault):
        await Files(Host(tmp_path, denies=True)).write({"path": "a", "content": "x"})
    assert not (tmp_path / "a").exists()


async def test_what_another_has_claimed_is_not_written(tmp_path: Path) -> None:
    @contextlib.contextmanager
    def writing(paths: tuple[str, ...]) -> Iterator[None]:
        raise Denied("it is claimed")
        yield

    host = Host(tmp_path, Guards(writing=writing))
    with pytest.raises(Fault, match="claimed"):
        await Files(host).write({"path": "a", "content": "x"})
    assert not (tmp_path / "a").exists() and host.events == []


async def test_a_write_that_the_system_refuses_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in ("file/below", "."):
        with pytest.raises(Fault):
            await Files(Host(tmp_path)).write({"path": path, "content": "x"})


async def test_each_fault_has_its_code_and_its_words(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (MOST + 1))
    (tmp_path / "whole").write_bytes(b"x" * MOST)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    files = Files(Host(tmp_path))
    assert len((await files.read({"path": "whole"}))["content"]) == MOST
    for call, params, code, words in (
        (files.read, {"path": "none"}, -32002, "no such file"),
        (files.read, {"path": "link"}, -32002, "no such file"),
        (files.read, {"path": "big"}, -32603, "is larger than"),
        (files.read, {"path": "."}, -32603, "cannot be read"),
        (files.read, {"path": 7}, -32602, "path must be a text"),
        (files.write, {"path": "a"}, -32602, "content must be a text"),
        (files.write, {"path": ".", "content": "x"}, -32603, "cannot be written"),
        (files.write, {"path": "file/below", "content": "x"}, -32603, "cannot be written"),
    ):
        with pytest.raises(Fault, match=words) as fault:
            await call(params)
        assert fault.value.code == code, params


async def test_a_write_is_guarded_by_its_real_path_and_told_with_its_call_and_diff(tmp_path: Path) -> None:
    guarded: list[tuple[str, ...]] = []

    @contextlib.contextmanager
    def writing(paths: tuple[str, ...]) -> Iterator[None]:
        guarded.append(paths)
        yield

    (tmp_path / "real").mkdir()
    (tmp_path / "way").symlink_to("real")
    host = Host(tmp_path, Guards(writing=writing))
    files = Files(host)
    assert await files.write({"path": "way/a", "content": "one\n"}) == {}
    await files.read({"path": "way/a"})
    assert guarded == [(str(tmp_path / "real" / "a"),)] and files.written == {str(tmp_path / "real" / "a")}
    (change,) = [event for event in host.events if isinstance(event, FileChanged)]
    assert (change.path, change.call) == (str(tmp_path / "way" / "a"), "fs-1") and "+one" in change.diff
    assert [(each.tool, each.kind) for each in host.used] == [("write", "write"), ("read", "read")]
    assert host.used[0].args == {"file_path": str(tmp_path / "way" / "a"), "content": "one\n"}
    assert (tmp_path / "real" / "a").stat().st_mode & 0o777 == 0o644
