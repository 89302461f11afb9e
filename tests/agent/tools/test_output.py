import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.tools.workspace import Workspace
from treadle.agent import toolbox
from treadle.agent.toolbox import Output


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
