import tracemalloc
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.tools.workspace import Workspace
from treadle.agent import toolbox
from treadle.agent.toolbox import Output, capped


def test_what_does_not_fit_keeps_head_and_tail_and_tells_where_the_whole_is(workspace: Workspace) -> None:
    text = "".join(f"line {number}\n" for number in range(20_000))
    result = capped(text, workspace.context)
    assert result.startswith("line 0\nline 1\n") and result.endswith("line 19998\nline 19999\n")
    assert len(result.encode()) <= workspace.context.output_cap
    kept = workspace.kept / "call-1.txt"
    assert f"the whole is in {kept}" in result and kept.read_text() == text
    head, tail = result.split("\n[... ")[0], result.split(" ...]\n")[1]
    assert f"{len(text) - len(head) - len(tail):,} of {len(text):,} bytes left out" in result


def test_a_flood_costs_the_cap_in_memory_and_a_bound_on_disk(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolbox, "DISK_CAP", 1 << 20)
    flood = Output(workspace.context)
    tracemalloc.start()
    for _ in range(2000):
        flood.add(b"y\n" * 8192)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert flood.size == 2000 * 16384 and peak < 2 << 20
    assert flood.path is not None and flood.path.stat().st_size == 1 << 20
    assert "the first 1 MiB are in" in flood.text() and len(flood.text()) < 26_000


def test_when_the_whole_cannot_be_kept_the_ends_still_come(workspace: Workspace) -> None:
    def full(call: str, text: str) -> Path:
        raise OSError(28, "No space left on device")

    context = msgspec.structs.replace(workspace.context, overflow=full)
    result = capped("a" * 50_000 + "end", context)
    assert "could not be kept: [Errno 28]" in result and result.endswith("end")


def test_bytes_that_are_no_utf8_become_escapes(workspace: Workspace) -> None:
    tool = Output(workspace.context)
    tool.add(b"ok \xff\xfe")
    assert tool.text() == "ok \\xff\\xfe"
    assert capped("lone \udcff", workspace.context) == "lone \\xff"


@given(pieces=st.lists(st.text(alphabet="aé😀\n", max_size=40), max_size=12), cut=st.integers(1, 7))
def test_however_it_is_cut_no_character_breaks_and_the_whole_is_on_disk(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], cut: int
) -> None:
    workspace = Workspace(tmp_path_factory.mktemp("output"), output_cap=64)
    data = "".join(pieces).encode()
    collected = Output(workspace.context)
    for start in range(0, len(data), cut):
        collected.add(data[start : start + cut])
    result = collected.text()
    assert "\\x" not in result and collected.size == len(data)
    if collected.path:
        assert collected.path.read_bytes() == data
    else:
        assert result.encode() == data and len(data) <= 64
