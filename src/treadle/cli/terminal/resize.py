"""`treadle resize`."""

from treadle.cli.arguments import Arguments, UsageError
from treadle.cli.terminal import WHERE, connect, place
from treadle.errors import PeerStalled

RESIZE_HELP = """Change a terminal's size, whatever its policy is.

treadle resize ID COLSxROWS
"""


def resize_command(arguments: list[str]) -> int:
    given = Arguments(arguments, WHERE)
    name, size = given.exactly(2, "an id and a size such as 120x40")
    cols, x, rows = size.partition("x")
    if not (cols.isdigit() and x and rows.isdigit() and int(cols) <= 0xFFFF and int(rows) <= 0xFFFF):
        raise UsageError(f"{size!r} is not a size; write 120x40")
    with connect(place(given, name), timeout=2.0) as client:
        try:
            client.hello()
        except PeerStalled:
            pass  # a supervisor without our additions accepts the frame too
        client.resize(int(cols), int(rows))
        client.status()
    return 0
