"""Every view of the page as a picture: dark and light, wide and on a phone. Nothing in them is touched up.

PICTURES=DIRECTORY python -m pytest tests/serve/web/pictures.py writes all of them. Without it, as in `make pictures`,
the three of the docs go to docs/pictures. It is a test file only for its fixtures: a real fleet, server and browser.
"""

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

from playwright.async_api import Page, expect

from tests.fleet.conftest import Start, give, spec, until_state
from tests.fleet.repositories import git, work
from tests.serve.web.conftest import Open, StartWeb
from tests.terminal.conftest import stage
from tests.terminal.support import Stage
from treadle.fleet import client
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus

__all__ = ["stage"]

ALL = os.environ.get("PICTURES", "")
"""Where all of them go; without it, only those of the docs are taken."""
SCRATCH = Path("/tmp/treadle-pictures/page")
"""Always the same: it is seen in the pictures."""
DOCS = Path(__file__).parents[3] / "docs" / "pictures"
KEPT = ("board-wide-dark", "changes-wide-light", "ask-phone-dark")
SIZES = {"wide": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
LOOM = """def threads(pattern):
    \\"\\"\\"How many threads a pattern needs.\\"\\"\\"
    return sum(row.count("x") for row in pattern)


def cost(pattern, price):
    return threads(pattern) * price
"""
SCRIPT = """
[[reply]]
text = "The test wants the price of a thread rounded to cents. I change `cost` and leave the rest alone."
usage = {{ input = 5200, output = 340 }}
[[reply.call]]
name = "read_file"
arguments = {{ file_path = "loom.py" }}
[[reply.call]]
name = "edit_file"
arguments = {{ file_path = "loom.py", old_string = "return threads(pattern) * price", new_string = "{new}" }}
[[reply]]
text = "Now the tests."
usage = {{ input = 6100, output = 120 }}
{call}
[[reply]]
text = "`cost` rounds to cents now, and every test passes."
usage = {{ input = 6400, output = 60 }}
"""
CALL = '[[reply.call]]\nname = "bash"\narguments = { command = "COMMAND" }'
TERMINAL = r"""
import time
print("\x1b[1m>\x1b[0m fix the failing test\n")
print("\x1b[36m*\x1b[0m I look at the test first.")
print("\x1b[32m  Read\x1b[0m tests/test_loom.py")
print("\x1b[32m  Edit\x1b[0m loom.py  \x1b[32m+3\x1b[0m \x1b[31m-1\x1b[0m")
print("\x1b[33m  Bash\x1b[0m pytest -q")
print("    12 passed in 0.31s", flush=True)
time.sleep(3600)
"""


def model(tmp_path: Path, name: str, new: str, command: str = "") -> str:
    path = tmp_path / f"{name}.toml"
    path.write_text(SCRIPT.format(new=new, call=CALL.replace("COMMAND", command) if command else ""))
    return f"scripted:{path}"


def repository() -> Path:
    shutil.rmtree(SCRATCH, ignore_errors=True)
    made = SCRATCH / "weaver"
    made.mkdir(parents=True)
    (made / "loom.py").write_text(LOOM.replace('\\"', '"'))
    git(made, "init", "-q", "-b", "main")
    git(made, "add", "-A")
    git(made, "-c", "user.name=Ana", "-c", "user.email=ana@example.org", "commit", "-qm", "a loom")
    return made


async def fill(bus: Bus, place: Path, tmp_path: Path) -> dict[str, str]:
    """A fleet in the middle of its day; gives the orders by what they show."""
    rounded = "return round(threads(pattern) * price, 2)"
    finished = work(place, model(tmp_path, "a", rounded), title="Round the price to cents", project="weaver")
    failed = work(
        place,
        model(tmp_path, "b", rounded),
        title="Speed up the thread count",
        project="weaver",
        verify="python3 -m pytest -q tests/test_speed.py",
    )
    await give(bus, finished, failed)
    for each in (finished, failed):
        await client.wait(bus, each.id, 90)
    command = "pip install --upgrade shuttle==2.4 && pytest -q tests/"
    asking = work(
        place,
        model(tmp_path, "c", rounded, command),
        title="Upgrade shuttle and mend what breaks",
        claims=("loom.py",),
        project="weaver",
    )
    running = spec("null:900:900", title="Write the tutorial for twill patterns", project="docs", claims=("docs/**",))
    waiting = [
        spec(title="Translate the tutorial", project="docs", labels=("gpu",)),
        spec(title="Publish release 2.4", project="weaver", labels=("release",), priority=8),
    ]
    await give(bus, asking, running, *waiting)
    await until_state(bus, asking.id, "asking")
    await until_state(bus, running.id, "running")
    return {"asking": asking.id, "finished": finished.id, "failed": failed.id, "running": running.id}


async def test_pictures(
    fleet: places.Fleet, bus: Bus, serving: StartWeb, start_node: Start, stage: Stage, tmp_path: Path, open_page: Open
) -> None:
    await start_node(name="loft", slots=6)
    web = await serving(terminals=str(stage.directory))
    await web.until_up()
    for _ in range(3):
        await asyncio.to_thread(stage.start, sys.executable, "-c", TERMINAL)
    terminal = await asyncio.to_thread(stage.start, sys.executable, "-c", TERMINAL, cols=80, rows=24)
    orders = await fill(bus, repository(), tmp_path)
    views = {
        "board": "",
        "ask": f"order/{orders['asking']}",
        "run": f"order/{orders['finished']}/run",
        "changes": f"order/{orders['finished']}/changes",
        "terminal-tab": f"order/{orders['running']}/terminal",
        "receipt": f"order/{orders['finished']}/receipt",
        "why": f"order/{orders['running']}/why",
        "failed": f"order/{orders['failed']}/run",
        "orders": "orders",
        "terminals": "terminals",
        "terminal": f"terminal/{terminal.id}",
        "nodes": "nodes",
        "money": "money",
        "claims": "claims",
        "search": "search?q=cents",
        "new": "new",
        "settings": "settings",
    }
    where = Path(ALL) if ALL else tmp_path
    where.mkdir(parents=True, exist_ok=True)
    for looks in ("dark", "light"):
        for size, viewport in SIZES.items():
            page = await open_page(web, color_scheme=looks, viewport=viewport)
            for name, view in views.items():
                picture = f"{name}-{size}-{looks}"
                if ALL or picture in KEPT:
                    await take(page, f"{web.address}/#/{view}", where / f"{picture}.png")
    for picture in () if ALL else KEPT:
        (DOCS / f"page-{picture}.png").write_bytes((where / f"{picture}.png").read_bytes())


async def take(page: Page, url: str, path: Path) -> None:
    await page.goto(url)
    await expect(page.locator("#pill")).to_have_text("live")
    await expect(page.get_by_text(re.compile("^(Loading .*)?…$"))).to_have_count(0)
    await page.wait_for_timeout(700)  # screens and charts are drawn after their view is there
    await page.screenshot(path=path)
