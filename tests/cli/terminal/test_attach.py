"""`treadle attach`, `wall` and `share`: who joins a terminal, and how."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Here, Person, Shell
from tests.installed import TREADLE, started
from tests.terminal.support import until
from treadle.cli.terminal import main
from treadle.serve import background
from treadle.serve.tokens import Tokens


@pytest.mark.slow
def test_attach_alone_joins_the_only_one_and_shows_several(here: Here, person: Callable[..., Person]) -> None:
    here.ended("gone")
    assert here.run("attach") == (1, "", "No active sessions\n  `treadle run -- COMMAND` starts one\n")
    here.stage.start("cat", id="x")
    assert "attach needs a terminal" in here.run("attach")[2] and "tail -f x" in here.run("attach")[2]
    here.stage.start("cat", id="longer")
    code, out, err = here.run("attach")
    assert (code, out) == (2, "") and "which one? longer, x;" in err
    me = person("attach", cols=130, rows=30)
    assert "longer" in me.sees("Enter: join it")
    me.types(b"q")
    assert me.leaves() == 0


def test_a_terminal_is_not_attached_to_itself(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--linger", "60", "--", TREADLE, "attach", "x")
    until(lambda: "this is the terminal x" in shell.written("x"))


def test_on_a_terminal_that_can_draw_nothing_it_says_so(here: Here, person: Callable[..., Person]) -> None:
    me = person("wall", term="dumb")
    assert me.leaves() == 1 and "needs a terminal" in me.sees("ls --watch")


@pytest.fixture
def share(here: Here, capfd: pytest.CaptureFixture[str]) -> "Share":
    return Share(capfd)


class Share:
    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured

    def __call__(self, *words: str) -> tuple[int, str, str]:
        return (main("share", list(words)), *self._captured.readouterr())


def test_a_terminal_is_shared_from_the_directory_that_the_server_shows_until_it_is_taken_back(
    here: Here, share: Share
) -> None:
    assert share("x") == (1, "", "no server is running\n  `treadle serve` starts one\n")
    assert share("--list") == (0, "No terminal is shared\n", "") and share("--list", "--json")[1] == "[]\n"
    here.stage.start("sleep", "60", id="x")
    with background.noted("http://host:1", "", terminals=str(here.directory)):
        code, out, _ = share("x")
        made, _, proof = out.strip().partition("#")
        assert (code, made) == (0, "http://host:1/share.html")
        told = json.loads(share("x", "--for", "2h", "--json")[1])
        assert "No session found: y" in share("y")[2]
    first, second = Tokens().shares()
    assert Tokens().watcher(proof) == first and (first.terminal, second.id) == ("x", told["id"])
    assert first.started == second.started and first.started.endswith("Z")
    assert told["url"].startswith("http://host:1/share.html#") and told["expires"] == second.expires
    assert 3500 < first.expires - time.time() <= 3600 and 7100 < second.expires - time.time() <= 7200
    assert share("--list")[1] == f"{first.id}  x  59m left\n{second.id}  x  1h left\n"
    rows = json.loads(share("--list", "--json")[1])
    assert rows[0] == {"id": first.id, "terminal": "x", "created": first.created, "expires": first.expires}
    assert share("--revoke", first.id) == (0, f"x is no longer shared by {first.id}\n", "")
    assert [each.id for each in Tokens().shares()] == [second.id] and share("--revoke", first.id)[0] == 1


def test_a_link_works_for_seven_days_at_most(share: Share) -> None:
    assert share("x", "--for", "7d")[2].startswith("no server is running")
    assert share("x", "--for", "7d1s") == (
        1,
        "",
        "treadle: a link to a terminal works for at most 7 days\n  make a new one then\n",
    )


def test_a_server_says_whose_terminals_it_shows(shell: Shell, tmp_path: Path) -> None:
    shell("run", "--detach", "--id", "here", "--", "sleep", "100")
    shell("run", "--detach", "--id", "there", "--socket-dir", str(tmp_path / "d"), "--", "sleep", "100")
    with started("serve", "--port", "0", "--json", "--terminals", "d", cwd=tmp_path) as server:
        try:
            assert server.stdout is not None
            while "url" not in (line := server.stdout.readline()):
                assert line, "it ended without a word"
            assert "/share.html#" in json.loads(shell("share", "there", "--json"))["url"]
            assert "No session found: here" in shell.run("share", "here").stderr
        finally:
            server.terminate()
            server.communicate(timeout=60)
            shell("kill", "there", "--socket-dir", str(tmp_path / "d"), "--grace", "0")
