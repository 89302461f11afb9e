"""`treadle demo`."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.installed import TREADLE, started
from tests.scripts import calls, says
from tests.tiers import spread
from tests.waiting import until
from treadle.agent.stored_sessions import list_sessions
from treadle.cli.fleet.demo import SECONDS
from treadle.fleet.sample import SHOP
from treadle.io.process import table


@pytest.mark.slow
async def test_the_demo_shows_what_it_promises_and_leaves_nothing_behind(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path), "TREADLE_WARM": "60"}  # as on a person's machine
    done = subprocess.run([TREADLE, "demo"], capture_output=True, text=True, timeout=400, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("dollars waits: prices.py overlaps", "stock asks: python3 check_shop.py", "was killed (kill -9)"):
        assert part in done.stdout
    assert "discount is handed to another agent" in done.stdout and "discount: done, attempt 2" in done.stdout
    assert "back     dollars to its author as" in done.stdout or "back     dollars as" in done.stdout
    assert "the page, for your browser: http://127.0.0.1:" in done.stdout
    for part in (
        "planned by an agent",
        "discount: red: prices.py:7",
        "met: the shop counts",
        "| reviewer |",
    ):
        assert part in done.stdout
    assert "check_shop.py: OK" in done.stdout and "4 receipts for 4 orders" in done.stdout
    assert "the branch's own test decides: failed, " in done.stdout
    assert "answered: allow, once" in done.stdout and re.search(r"  together +\d+\n", done.stdout)
    await nothing_left(tmp_path)


def left_in(place: Path) -> list[str]:
    """The files there, and the processes that were started with it as their temporary directory."""
    found = [str(path) for path in place.iterdir()]
    for process in table.processes():
        with suppress(OSError):
            if f"TMPDIR={place}".encode() in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                found.append(" ".join(table.command_line(process.pid)))
    return found


async def nothing_left(place: Path) -> None:
    with suppress(TimeoutError):
        await until(lambda: not left_in(place))
    assert left_in(place) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "moment", "ending"),
    spread(
        [
            (signal.SIGINT, "discount: running", (130, "treadle: the demo was ended by SIGINT\n")),
            (signal.SIGTERM, "the page, for your browser", (143, "treadle: the demo was ended by SIGTERM\n")),
            (signal.SIGTERM, "A repository with four failing tests", (143, "treadle: the demo was ended by SIGTERM\n")),
            (signal.SIGHUP, "discount: running", (129, "treadle: the demo was ended by SIGHUP\n")),
            (signal.SIGKILL, "discount: running", (-9, "")),
            (signal.SIGKILL, "engine  started", (-9, "")),
        ],
        quick=0,
        slow=2,
    ),
)
async def test_a_signal_ends_the_demo_and_all_that_it_started(
    number: signal.Signals, moment: str, ending: tuple[int, str], tmp_path: Path
) -> None:
    demo = started("demo", env={**os.environ, "TMPDIR": str(tmp_path)})
    assert demo.stdout is not None and any(moment in line for line in demo.stdout)
    demo.send_signal(number)
    _, errors = await asyncio.to_thread(demo.communicate, timeout=60)
    assert (demo.returncode, errors) == ending
    await nothing_left(tmp_path)


WITHOUT_A_MODEL = """
import sys
from pathlib import Path
from treadle.cli.fleet.demo import run
from treadle.fleet import sample
sample.SHOP = Path(sys.argv[1])
run()
"""


@pytest.mark.slow
async def test_an_order_that_fails_ends_the_demo_with_its_reason(tmp_path: Path) -> None:
    shop, scratch = tmp_path / "shop", tmp_path / "tmp"
    shutil.copytree(SHOP, shop)
    (shop / "greeting.toml").unlink()
    scratch.mkdir()
    command, env = [sys.executable, "-c", WITHOUT_A_MODEL, str(shop)], {**os.environ, "TMPDIR": str(scratch)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=env)
    assert "the order greeting failed: cannot read the script" in done.stderr, done.stdout + done.stderr
    await nothing_left(scratch)


def demo(place: Path, *options: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TMPDIR": str(place)}
    done = subprocess.run([TREADLE, "demo", *options], capture_output=True, text=True, timeout=120, env=env)
    assert list(place.glob("treadle-demo-*")) == []
    return done


def test_the_small_demo_shows_the_change_and_that_the_test_passes(tmp_path: Path) -> None:
    done = demo(tmp_path, "--one")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "+    return full - full * discount_percent // 100" in done.stdout
    assert "The test as it was at the start passes" in done.stdout and "bold" not in done.stdout
    parts = ("A repository with a failing test: ", "> The test in check_prices.py fails.", "What changed (git diff):")
    for part in (*parts, "The model's words: scripted; the loop, the tools, the edit and the test were real."):
        assert part.strip() in " ".join(done.stdout.split())
    assert list_sessions() == [], "nothing is kept"


def test_an_agent_that_changes_the_test_in_place_of_the_code_is_found_out(tmp_path: Path) -> None:
    mine, script = tmp_path / "mine", tmp_path / "cheat.toml"
    mine.write_text("a file of the user")
    script.write_text(calls("bash", {"command": f"ln -sf {mine} check_prices.py"}) + says("The test passes now."))
    done = demo(tmp_path, "--model", f"scripted:{script}")
    assert "The test passes now." in done.stdout and "The model's words: all of it was real." in done.stdout
    assert "The test as it was at the start still FAILS" in done.stdout and done.returncode == 1
    assert mine.read_text() == "a file of the user"
