"""`treadle tail`."""

from __future__ import annotations

import os
from collections.abc import Callable

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, connect, place, warn
from treadle.errors import NotFound, PeerStalled, TreadleError
from treadle.io.opening import opened
from treadle.light import TYPE_CHECKING, Any
from treadle.wire.terminal import frames as wire

if TYPE_CHECKING:
    from treadle.terminal.places import Place

BLOCK = 64 * 1024


TAIL_HELP = """Show the end of a terminal's output, also after it has ended.

  treadle tail ID [--lines N] [-f] [--strip]

--lines N   how many lines (20)
-f          and what comes, until it ends; the exit code is then the program's
--strip     without colours and other escape sequences
"""


def tail_command(arguments: list[str]) -> int:
    given = Arguments(arguments, f"--lines -n {WHERE}", "-f --follow --strip")
    where = place(given, given.exactly(1, "one id")[0])
    count = int(given.number("--lines", given.number("-n", 20)))
    write = _writer("--strip" in given.flags)
    if not given.flags & {"-f", "--follow"}:
        write(_end(where, count))
        return 0
    try:
        return _follow(where, count, write)
    except NotFound:
        from treadle.terminal.history import exit_record

        _warn_of_lost_end(where)
        write(last_lines(where, count, None))
        code = exit_record(where.exit).get("code")
        return code if isinstance(code, int) else 1


def _end(where: Place, count: int) -> bytes:
    """The last lines, from the file or from a supervisor that keeps no file. Warns when the file is behind."""
    try:
        with connect(where) as client:
            client.timeout = 2.0
            try:
                _warn_of_loss(client.detail()["output"])
            except PeerStalled:
                from treadle.terminal.screen import replayed

                return b"\n".join(replayed(client).rsplit(b"\n", count + 1)[-count - 1 :])
    except (NotFound, PeerStalled):
        _warn_of_lost_end(where)
    return last_lines(where, count, None)


def _warn_of_loss(output: dict[str, Any]) -> None:
    if output["lost"]:
        warn(f"treadle: {output['lost']} bytes could not be written, the disk was full: what is shown here is old")
        warn("  `treadle peek` and `treadle attach` show what there is now")


def _warn_of_lost_end(where: Place) -> None:
    """For a terminal that has ended: if the disk was full then, its last output is lost."""
    from treadle.terminal.history import exit_record

    try:
        lost = exit_record(where.exit).get("output_lost")
    except TreadleError:
        return
    if lost:
        warn(f"treadle: {lost} bytes could not be written, the disk was full: its last words may be missing here")


def _follow(where: Place, count: int, write: Callable[[bytes], None]) -> int:
    """The file has everything up to an offset, and the socket everything after it: nothing is missing or repeated."""
    with connect(where) as client:
        try:
            output = client.detail()["output"]
        except PeerStalled:  # a supervisor without our additions offers only its scrollback
            output = None
        if output:
            _warn_of_loss(output)
            write(last_lines(where, count, output["file_size"]))
            client.hello(wire.READ_ONLY | wire.FROM, output["end"])
        client.subscribe()
        for message in client.messages():
            if isinstance(message, wire.ProgramOutput):
                write(message.data)
            elif isinstance(message, wire.Exit):
                return message.code
    return 1


def last_lines(where: Place, count: int, size: int | None) -> bytes:
    """The last lines on disk: of the current file up to `size`, and of the one before it when needed."""
    found = _end_of(where.out, count, size)
    lines = found.count(b"\n") + (not found.endswith(b"\n") and bool(found))
    if lines < count and os.path.exists(f"{where.out}.1"):
        found = _end_of(f"{where.out}.1", count - lines, None) + found
    return found


def _end_of(path: str, count: int, size: int | None) -> bytes:
    """Read backwards, block by block, until enough lines are found."""
    parts: list[bytes] = []
    try:
        with opened(path) as file:
            at = file.seek(0, os.SEEK_END) if size is None else size
            wanted = count + 1  # and the newline before the first of them; the last line may or may not end with one
            while at > 0 and wanted > 0 < count:
                step = min(BLOCK, at)
                at -= step
                file.seek(at)
                block = file.read(step)
                if not parts and not block.endswith(b"\n"):
                    wanted -= 1
                found = block.count(b"\n")
                if found >= wanted:
                    block = block.split(b"\n", found - wanted + 1)[-1]
                wanted -= found
                parts.append(block)
    except FileNotFoundError:
        return b""
    return b"".join(reversed(parts))


def _writer(strip: bool) -> Callable[[bytes], None]:
    clean: Callable[[bytes], bytes] = bytes
    if strip:
        from treadle.terminal.sequences import Stripper

        clean = Stripper().feed

    def write(data: bytes) -> None:
        view = memoryview(clean(data))
        while view:  # sys.stdout may be unbuffered (PYTHONUNBUFFERED), and would then drop what a pipe does not take
            view = view[os.write(1, view) :]

    return write
