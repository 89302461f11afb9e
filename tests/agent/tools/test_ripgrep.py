import base64
import json
import os
import sysconfig
from pathlib import Path

import pytest

from treadle.agent.tools import search
from treadle.agent.tools.search import RipgrepReader


def line(kind: str, **data: object) -> bytes:
    return json.dumps({"type": kind, "data": data}).encode() + b"\n"


def whole(path: str, *numbers: int, binary: int | None = None) -> bytes:
    where = {"text": path}
    rows = [line("match", path=where, lines={"text": f"l{n}\r\n"}, line_number=n, new_field=1) for n in numbers]
    return b"".join([line("begin", path=where), *rows, line("end", path=where, binary_offset=binary)])


def test_files_come_whole_however_the_bytes_are_cut() -> None:
    data = whole("/a", 1, 5) + whole("/b", 2) + line("summary", stats={})
    for size in (1, 7, len(data)):
        reader = RipgrepReader(keep=100)
        found = [file for start in range(0, len(data), size) for file in reader.feed(data[start : start + size])]
        assert [(file.path, [(row.line, row.text) for row in file.rows]) for file in found] == [
            ("/a", [(1, "l1"), (5, "l5")]),
            ("/b", [(2, "l2")]),
        ]


def test_a_line_of_megabytes_is_counted_and_not_kept() -> None:
    where = {"text": "/a"}
    long = line("match", path=where, lines={"text": "x" * (2 << 20)}, line_number=1)
    data = line("begin", path=where) + long + line("end", path=where, binary_offset=None)
    [file] = RipgrepReader(keep=3).feed(data)
    assert file.rows == [] and file.count == 1


def test_names_and_lines_that_are_no_utf8_are_read() -> None:
    where = {"bytes": base64.b64encode(b"/caf\xe9").decode()}
    data = line("begin", path=where) + line("end", path=where, binary_offset=None)
    [file] = RipgrepReader(keep=3).feed(data)
    assert os.fsencode(file.path) == b"/caf\xe9"


def test_the_installed_program_comes_before_the_one_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "rg"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert search.find() == os.path.join(sysconfig.get_path("scripts"), "rg")


def test_ripgrep_is_found_on_path_and_never_by_a_relative_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "rg"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: "/no/scripts")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert search.find() == str(program)
    assert search.find(str(tmp_path)) is None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    assert search.find("/") is None
