"""`treadle top`: what it prints, and the same on a real terminal with keys."""

import asyncio
import sys
from pathlib import Path

from click.testing import CliRunner

from tests.fleet.conftest import make_fleet
from tests.terminal.conftest import stage
from tests.terminal.support import Stage, until
from treadle.cli.top import lines, top
from treadle.fleet import layout, server
from treadle.fleet.glance import Glance, GlanceRow
from treadle.terminal.client import Client
from treadle.terminal.screen import snapshot

__all__ = ["stage"]


def test_a_line_shows_state_age_and_what_it_does_and_obeys_nothing() -> None:
    row = GlanceRow(id="abc", word="asks", title="evil \x1b[31m\u202e", changed=0.0, now="rm -rf x\ny")
    found = lines(Glance(head="", sections=[("Needs you", [row])]), 200)
    assert found[0][0] == "Needs you (1)" and found[1][1] == "abc"
    assert "rm -rf x y" in found[1][0] and "\x1b" not in found[1][0] and "\u202e" not in found[1][0]


def test_without_a_fleet_it_says_what_to_do(state_home: Path) -> None:
    result = CliRunner().invoke(top, ["--once"])
    assert result.exit_code and "belongs to no fleet" in str(result.exception)


def test_on_a_terminal_it_is_drawn_and_q_leaves_it(stage: Stage, state_home: Path) -> None:
    fleet = make_fleet()
    server.start(fleet)
    try:

        async def ready() -> None:
            bus = await server.await_ready(fleet)
            await layout.ensure(bus, lease=fleet.lease)
            await bus.close()

        asyncio.run(ready())
        code = "import sys; from treadle.cli.root import main; main(['top'])"
        place = stage.start(sys.executable, "-c", code)
        until(lambda: any("Needs you (0)" in line for line in snapshot(place)["lines"]))
        with Client(place.sock) as client:
            client.input(b"q")
            assert list(client.output(60)) is not None and client.exit_code == 0
    finally:
        server.stop()
