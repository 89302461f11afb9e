import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.tools.workspace import Workspace
from treadle.agent.tools import file_tools
from treadle.errors import ToolError


def numbered(*lines: str, first: int = 1) -> str:
    return "".join(f"{number:>6}\t{line}\n" for number, line in enumerate(lines, first))


async def test_fifos_sockets_and_devices_are_refused_and_do_not_hang(workspace: Workspace) -> None:
    os.mkfifo(workspace.root / "pipe")
    with pytest.raises(ToolError, match="is a FIFO"):
        await workspace.run("read_file", file_path="pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(workspace.root / "socket"))
        with pytest.raises(ToolError, match="is a socket"):
            await workspace.run("read_file", file_path="socket")
    with pytest.raises(ToolError, match="is a device"):
        await workspace.run("read_file", file_path="/dev/zero")


async def test_a_window_of_a_huge_file_is_not_read_into_memory(workspace: Workspace) -> None:
    import tracemalloc

    path = workspace.root / "huge.log"
    block = b"".join(b"line %06d of a block that is repeated\n" % n for n in range(25_000))
    with path.open("wb") as file:
        for _ in range(100):
            file.write(block)
    assert path.stat().st_size > 90_000_000
    tracemalloc.start()
    result = await workspace.run("read_file", file_path="huge.log", offset=2_400_001, limit=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.endswith("[lines 2,400,001 to 2,400,003 of 2,500,000; to continue: offset=2400004]")
    assert peak < 16_000_000


@given(text=st.text(alphabet="ab\n\té", max_size=80), first=st.integers(1, 12), count=st.integers(1, 12))
def test_any_window_has_the_lines_that_a_plain_split_has(
    tmp_path_factory: pytest.TempPathFactory, text: str, first: int, count: int
) -> None:
    path = tmp_path_factory.mktemp("window") / "a.txt"
    path.write_text(text)
    lines = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")
    wanted = lines[first - 1 : first - 1 + count] if text else []
    try:
        result, _ = file_tools._read(Path(path), first, count, 10_000)
    except ToolError:
        assert not wanted
    else:
        assert result.startswith(numbered(*wanted, first=first)) if wanted else "is empty" in result
