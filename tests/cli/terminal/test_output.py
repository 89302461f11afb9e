"""`treadle tail`, `peek` and `replay`: what a program has written, its screen, and what was recorded."""

import json
import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.terminal.shells import Here, Shell
from tests.installed import TREADLE, started
from tests.terminal.support import connected, until
from treadle.cli.terminal import status
from treadle.terminal.places import Place


@settings(max_examples=400)
@given(
    st.lists(st.sampled_from([b"", b"a", b"bc", b"d" * 50]), max_size=40),
    st.booleans(),
    st.integers(0, 45),
    st.integers(0, 60),
)
def test_the_last_lines_are_those_that_a_list_would_give(
    tmp_path_factory: object, lines: list[bytes], ends: bool, count: int, older: int
) -> None:
    directory = tmp_path_factory.mktemp("t")  # type: ignore[attr-defined]
    place = Place(str(directory), "x")
    data = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    Path(f"{place.out}.1").write_bytes(data[:older])
    Path(place.out).write_bytes(data[older:])
    expected = b"".join(data.splitlines(keepends=True)[-count:] if count else [])
    if older and older < len(data) and not data[:older].endswith(b"\n"):
        return  # rotation cuts lines only where the program paused; a cut line is two
    status.BLOCK = 7
    assert status.last_lines(place, count, None) == expected


def test_tail_shows_the_last_lines_and_follows_to_the_end(shell: Shell) -> None:
    shell(
        "run",
        "--detach",
        "--id",
        "x",
        "--scrollback-bytes",
        "64",
        "--",
        "sh",
        "-c",
        "seq 1 5000; read x; seq 1 3; exit 5",
    )
    until(lambda: shell("tail", "x", "--lines", "1") == "5000\n")
    assert shell("tail", "x", "--lines", "3", "--strip").split() == ["4998", "4999", "5000"]
    assert len(shell("tail", "x", "-n", "4000").split()) == 4000
    follower = started("tail", "-f", "x", "-n", "2", stderr=None)
    assert follower.stdout
    assert [follower.stdout.readline().strip() for _ in range(2)] == ["4999", "5000"]
    shell("send", "x", "\\n", "--escapes")
    assert follower.stdout.read().split() == ["1", "2", "3"]
    assert follower.wait(50) == 5
    follower.stdout.close()
    assert shell("tail", "x", "-n", "1") == "3\n"


def test_reading_output_into_a_pipe_that_closes_is_no_error(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", "head -c 9000000 /dev/zero")
    shell("wait", "x", "--exit")
    reader = subprocess.Popen([TREADLE, "tail", "x"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert reader.stdout and reader.stderr
    reader.stdout.read(1)
    reader.stdout.close()
    assert reader.wait(50) == 141 and reader.stderr.read() == b""
    reader.stderr.close()


def test_peek_shows_the_screen(here: Here) -> None:
    place = here.stage.start("sh", "-c", "printf '\\n\\033[31mred\\n \\n'; cat", id="x", cols=40, rows=6)
    with connected(place) as client:
        until(lambda: client.detail()["output"]["end"])
    assert here("peek", "x") == "\nred\n"
    found = json.loads(here("peek", "x", "--json"))
    assert found["cursor"] == {"x": 0, "y": 3, "visible": True} and len(found["lines"]) == 6
