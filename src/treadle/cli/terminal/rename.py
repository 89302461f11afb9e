"""`treadle rename`."""

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, connect, place
from treadle.errors import LocalError
from treadle.terminal.places import check_id

RENAME_HELP = """Give a terminal another id. Its program goes on and is not notified.

treadle rename ID NEW-ID

Who is attached stays so. Its files move too; the program's own variable with the id keeps the old one.
"""


def rename_command(arguments: list[str]) -> int:
    given = Arguments(arguments, WHERE)
    name, new = given.exactly(2, "an id and a new one")
    check_id(new)
    with connect(place(given, name)) as client:
        answer = client.rename(new)
    if answer["why"]:
        raise LocalError(f"{name} keeps its id: {answer['why']}")
    print(answer["id"])
    return 0
