import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.pixels import png
from tests.agent.tools.workspace import Workspace
from treadle.agent.tools import file_tools, files, images
from treadle.errors import ToolError


def numbered(*lines: str, first: int = 1) -> str:
    return "".join(f"{number:>6}\t{line}\n" for number, line in enumerate(lines, first))


async def test_following_the_continuations_reads_every_line_once(workspace: Workspace) -> None:
    lines = [f"line {n} " + "x" * (n % 300) for n in range(1, 3000)]
    workspace.write("a.txt", "\n".join(lines) + "\n")
    seen: list[str] = []
    offset = 1
    while True:
        result = await workspace.run("read_file", file_path="a.txt", offset=offset)
        assert len(result) <= workspace.context.output_cap
        *body, note = result.split("\n")
        seen += [row.split("\t", 1)[1] for row in body]
        if "to go on" not in note:
            break
        offset = int(note.rsplit("offset=", 1)[1].rstrip("]"))
    assert seen == lines


async def test_a_very_long_line_is_cut_with_a_note_and_never_within_a_character(workspace: Workspace) -> None:
    workspace.write("a.txt", "x" + "é" * 50_000 + "\nnext\n")
    result = await workspace.run("read_file", file_path="a.txt")
    first, second = result.rstrip("\n").split("\n")
    assert "more bytes in this line" in first and "�" not in first and "\\x" not in first
    assert second.endswith("\tnext")
    kept = first.split("\t", 1)[1].split(" [...")[0]
    assert int(first.split("[... ")[1].split()[0]) == 1 + 100_000 - len(kept.encode())


async def test_a_pdf_is_shown_where_the_service_takes_documents(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    workspace = Workspace(tmp_path / "work", documents=True, keep_image=lambda data, suffix: f"kept.{suffix}")
    workspace.write("a.txt", b"%PDF-1.7\n/Type /Page\n/Type /Page\n")
    assert "a PDF of 33 bytes" in await workspace.run("read_file", file_path="a.txt")
    [document] = workspace.context.images
    assert (document.name, document.media_type, document.pages) == ("kept.pdf", "application/pdf", 2)


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


async def test_a_symlink_loop_is_an_error_and_a_link_is_read(workspace: Workspace) -> None:
    (workspace.root / "a").symlink_to("b")
    (workspace.root / "b").symlink_to("a")
    with pytest.raises(ToolError, match="symlink"):
        await workspace.run("read_file", file_path="a")
    workspace.write("real.txt", "here\n")
    (workspace.root / "link").symlink_to("real.txt")
    assert await workspace.run("read_file", file_path="link") == numbered("here")


async def test_the_kernel_files_that_have_no_size_are_read(workspace: Workspace) -> None:
    assert "Linux version" in await workspace.run("read_file", file_path="/proc/version")


async def test_a_name_with_newline_or_invalid_utf8_can_be_read_as_it_is_shown(workspace: Workspace) -> None:
    for name in (b"two\nlines", b"caf\xe9", b"\xff\xfe"):
        with open(os.path.join(os.fsencode(workspace.root), name), "wb") as file:
            file.write(b"inside\n")
    for shown in (r"two\x0alines", r"caf\xe9", r"\xff\xfe"):
        assert await workspace.run("read_file", file_path=shown) == numbered("inside")


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
    assert result.endswith("[lines 2,400,001 to 2,400,003 of 2,500,000; to go on: offset=2400004]")
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


async def test_what_was_read_is_known_and_an_image_of_the_largest_size_is_shown(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    workspace = Workspace(tmp_path / "w", keep_image=lambda data, suffix: f"{len(data)}.{suffix}")
    path = workspace.write("a.png", png())
    assert "3 x 2 pixels" in await workspace.run("read_file", file_path="a.png")
    assert workspace.context.images[0].name == f"{len(png())}.png"
    assert files.not_known(workspace.context, files.load(path)) == ""
    workspace.write("b.png", png(padding=images.LARGEST))
    with pytest.raises(ToolError, match="too large to be shown"):
        await workspace.run("read_file", file_path="b.png")
