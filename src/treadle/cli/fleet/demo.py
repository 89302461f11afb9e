"""`treadle demo`: a fleet of agents, or one, at work on a temporary repository. No key, no network."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treadle.agents import find_agent
from treadle.cli.chat.page import Page
from treadle.cli.render import colourful
from treadle.errors import LocalError, NotFound, TreadleError
from treadle.fleet import client, sample
from treadle.fleet.run import runs
from treadle.installation import adding, has
from treadle.io import scratch
from treadle.io.files import read
from treadle.io.process import table
from treadle.io.process.child import consult
from treadle.io.process.loop import ended_by_signals, run_async
from treadle.io.process.programs import run_program
from treadle.io.process.tree import detach
from treadle.io.sandbox.methods import wanted
from treadle.io.sandbox.start import start
from treadle.io.tasks import end_tasks
from treadle.policy.environment import reduced
from treadle.session import Confinement, Limits, SessionSpec, Start
from treadle.sessions.totals import TurnTotals, run_turn
from treadle.workspace import checkouts, uncommitted
from treadle.workspace.user_repository import first_commit

if TYPE_CHECKING:
    from treadle.fleet.engine.bus import Bus
    from treadle.wire.fleet.records import Order
    from treadle.wire.fleet.train import TrainRecord


# The second part of the fleet's demo: a goal in three waves, planned, reviewed, in conflict, landed and judged.

GOAL = "The shop's four mistakes are fixed"


async def show(bus: Bus, place: Path, say: Callable[[str], None]) -> bool:
    """Whether the goal was met."""
    from treadle.goals import commands, planner
    from treadle.wire.goal.plan import GoalBudget

    repository = await asyncio.to_thread(sample.make_repository, place)
    say(f'the same mistakes again, as one goal: treadle goal plan "{GOAL}" --go')
    made = await planner.plan(
        bus, GOAL, str(repository), model=_script("planner"), budget=GoalBudget(tokens=200_000, hours=1, orders=20)
    )
    say(f"  planned by an agent that reads and cannot write, {made.used.tokens} tokens; a person agrees to the plan:")
    name, _ = await commands.begin(bus, _with_roles(made.text), str(repository), by="demo", planner=made.used)
    states: dict[str, str] = {}
    killing: asyncio.Task[None] | None = None
    async for record in commands.follow(bus, name):
        for step, each in record.steps.items():
            if states.get(step, "waiting") != each.state:
                why = f": {each.why.splitlines()[0]}" if each.why else ""
                say(f"  {step}: {each.state}{why}")
            states[step] = each.state
        if record.steps["dollars"].state == "working" and killing is None:
            killing = asyncio.create_task(_kill_a_runner(record.steps["dollars"].order, say))
        for about, order in record.questions.items():
            asyncio.get_running_loop().create_task(_answer_with(bus, order, allow=about == "plan"))
    if killing is not None:
        await killing
    for step, each in record.steps.items():
        if helper := (await client.get_order(bus, each.order)).result.get("sent_back"):
            say(f"  {step} was in conflict with what had landed; its author got both sides: {helper} has both")
    say(f"{record.state}: {record.why}")
    for line in (await commands.report(bus, name)).text.splitlines():
        if line.startswith("|"):
            say(f"  {line}")
    return record.state == "met" and await client.get_receipt(bus, record.steps["stock"].order) is not None


def _script(name: str) -> str:
    from treadle.fleet.sample import SHOP

    return f"scripted:{SHOP / f'goal_{name}.toml'}"


def _with_roles(text: str) -> str:
    """The plan as a person might leave the editor: with agents for its roles, and a review of each change."""
    from msgspec.structs import replace

    from treadle.wire.goal.plan import read, to_toml

    plan, _ = read(text)
    assert plan is not None
    roles = {role: f"native {_script(role)}" for role in ("worker", "reviewer", "judge")}
    return to_toml(replace(plan, roles=roles, mode="full-auto", gates=("plan", "agent:reviewer")))


async def _answer_with(bus: Bus, order: str, *, allow: bool) -> None:
    """The person of the demo agrees to the plan. Nothing else should be asked, and a yes could go on for ever."""
    for _ in range(200):
        try:
            return await client.answer(bus, order, "allow" if allow else "deny", by="demo")
        except TreadleError:  # it is not asked yet, or answered already
            await asyncio.sleep(0.05)


async def _kill_a_runner(order: str, say: Callable[[str], None]) -> None:
    """Kill the runner with SIGKILL as soon as there is one."""
    runner: Any = None
    for _ in range(600):
        if (runner := runs.runner_of(runs.directory(order, 1))) is not None:
            break
        await asyncio.sleep(0.02)
    process = table.look(runner.pid) if runner is not None else None
    if process is not None and table.send(process, signal.SIGKILL):
        say(f"  dollars' runner, process {process.pid}, was killed (kill -9); another takes over")


# The fleet's demo: four orders, a wait, a question, a killed runner, a conflict, all of it landed; then a goal.

SECONDS = 300.0
AGAIN = 1.0
SAYS, READY = b" ", b"ready\n"
"""How the lines of the process with the fleet begin that are for people, and the one that says that the fleet is up."""
DEMO, LOCK = 3, 4
"""Its descriptors: a socket to the demo, and what holds the demo's directory."""


def run() -> int:
    """Run the demo in a state directory of its own, which is removed at the end. The process ends with it."""
    with scratch.directory("demo") as place:
        os.environ["TREADLE_HOME"] = os.path.join(place, "state")
        return run_async(ended_by_signals(_demo_of_a_fleet(Path(place)), "the demo"))


async def _demo_of_a_fleet(place: Path) -> int:
    began = time.monotonic()
    repository = sample.make_repository(place / "shop")
    say = _Timed(began)
    say(f"A repository with four failing tests: {repository}")
    try:
        async with _fleet(str(place), say):
            return await _insisting(_showing(place, repository, say))
    finally:
        say(f"Over after {time.monotonic() - began:.0f} s; nothing is left behind.")


async def _showing(place: Path, repository: Path, say: Callable[[str], None]) -> int:
    async with _page(say), client.connected() as bus:
        try:
            async with asyncio.timeout(SECONDS):
                code = await _show(bus, repository, say)
                met = await show(bus, place / "shop-2", say)
        except TimeoutError:
            raise LocalError(f"the demo did not finish within {SECONDS:g} s") from None
        await _until_enter(say)
        return code or (0 if met else 1)


async def _insisting(work: Coroutine[Any, Any, int]) -> int:
    """What comes of the work. Cancelled, it is told so until it ends: before Python 3.12 `asyncio.wait_for`, which the
    engine's client uses, loses a cancellation that comes in the moment of its end."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait((task,))
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait((task,), timeout=AGAIN)
    return task.result()


@asynccontextmanager
async def _fleet(place: str, say: _Timed) -> AsyncIterator[None]:
    """A fleet outlives those who start it. Another process starts this one, so that it ends it as soon as we are gone,
    also by kill -9; and what then is left below that process, its reaper ends."""
    ours, theirs = socket.socketpair()
    with theirs:
        argv = [sys.executable, "-P", "-m", "treadle.cli.fleet.demo", place]
        detach(argv, cwd="/", fds=(theirs.fileno(), scratch.lock_of(place)))
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        while (line := await reader.readline()) != READY:
            if not line.startswith(SAYS):
                raise LocalError(f"the fleet does not start: {line.decode().strip() or 'no reason given'}")
            say(line.removeprefix(SAYS).decode().rstrip())
        yield
    finally:
        say.needed = False
        writer.write_eof()
        while line := await reader.readline():
            say(line.removeprefix(SAYS).decode().rstrip())
        writer.close()


async def keep_fleet(place: str) -> None:
    """What the other process does: start the fleet, wait until the demo is over or gone, and remove all of it."""
    from treadle.fleet import up

    os.set_inheritable(LOCK, False)
    with socket.socket(fileno=DEMO) as demo:
        demo.set_inheritable(False)

        def tell(line: bytes) -> None:
            with suppress(OSError):  # the demo is gone
                demo.sendall(line)

        def say(text: str) -> None:
            tell(SAYS + text.encode() + b"\n")

        try:  # not cut short when the demo ends meanwhile: what is half started could not be ended in order
            await up.up(name="demo", slots=3, lease=2.0, say=say, program="treadle.goals.node")
            tell(READY)
            await asyncio.to_thread(demo.recv, 1)
        except TreadleError as error:
            tell(f"{error}\n".encode())
        with suppress(NotFound):  # it has failed before there was a fleet
            await up.down(say=say)
        scratch.remove(place)
        scratch.remove_all()  # what the runners left that were killed


@asynccontextmanager
async def _page(say: Callable[[str], None]) -> AsyncIterator[None]:
    from treadle.serve.listening import Listening
    from treadle.serve.server import WebServer, served
    from treadle.serve.tokens import Tokens

    tokens, listening = Tokens(), Listening(port=0)
    server = WebServer(address=listening.address, names=listening.names, tokens=tokens)
    async with served(server, listening, heeds_signals=False):
        say(f"the page, for your browser: {listening.address}/#{tokens.link('demo', 'all')}")
        yield


async def _until_enter(say: Callable[[str], None]) -> None:
    """A person may want to look around on the page; a script does not wait."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    say("the page shows it all until you press Enter")
    pressed, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(sys.stdin, pressed.set)
    try:
        await pressed.wait()
    finally:
        loop.remove_reader(sys.stdin)


class _Timed:
    def __init__(self, began: float) -> None:
        self._began = began
        self.needed = True
        """Whether it is an error when no one can read it any more. While the demo ends it is not."""

    def __call__(self, text: str) -> None:
        try:
            click.echo(f"{time.monotonic() - self._began:5.1f} s  {text}")
        except OSError:
            if self.needed:
                raise


async def _show(bus: Bus, repository: Path, say: Callable[[str], None]) -> int:
    from treadle.fleet.sample import CHECK

    names = await _submit(bus, repository)
    by_id = {order: name for name, order in names.items()}
    for name, order in names.items():
        say(f"order {order} ({name}) is stored")
    watching = asyncio.create_task(_watch(bus, by_id, say))
    working = asyncio.create_task(_work(bus, names, say))
    try:
        await asyncio.wait((watching, working), return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            await watching  # raises: an order failed, and what is waited for will not come
        orders = await working
    finally:
        await end_tasks(watching, working)
    refused = await _cheat(bus, repository, say)
    say("landing the work of all four, each checked before the branch moves; dollars and discount changed one line:")
    landed = await _land(bus, repository, by_id, say)
    checked = await asyncio.to_thread(_check, repository)
    say(f"{CHECK}: {checked}")
    _card(orders, by_id, say)
    receipts = [await client.get_receipt(bus, order) for order in names.values()]
    sealed = [receipt for receipt in receipts if receipt is not None and receipt.sealed().sha256 == receipt.sha256]
    say(f"{len(sealed)} receipts for {len(orders)} orders; the models' words were scripted, all else was real")
    good = all(order.state == "done" for order in orders) and landed and refused
    return 0 if good and checked == "OK" and len(sealed) == len(orders) else 1


async def _work(bus: Bus, names: dict[str, str], say: Callable[[str], None]) -> list[Order]:
    """The orders at their end."""
    wait = await _collision(bus, names["dollars"])
    say(f"dollars waits: {wait}")
    await asyncio.gather(_kill(bus, names["discount"], say), _answer(bus, names["stock"], say))
    return [await client.wait(bus, order) for order in names.values()]


async def _cheat(bus: Bus, repository: Path, say: Callable[[str], None]) -> bool:
    """An agent changes the test in place of the code. Whether it was not believed."""
    order = sample.spec_of("cheat", repository)
    await client.submit(bus, [order])
    ended = await client.wait(bus, order.id)
    say('an agent has changed the test in place of the code, and says: "Done: all tests of the greeting pass now."')
    why, _, _ = (ended.why or "").partition(": `treadle")
    say(f"  the branch's own test decides: {ended.state}, {why}")
    return ended.state == "failed"


async def _land(bus: Bus, repository: Path, by_id: dict[str, str], say: Callable[[str], None]) -> bool:
    """Whether all of it is on the branch."""
    from treadle.landing import train

    def say_named(text: str) -> None:
        for order, name in by_id.items():
            text = text.replace(order, name)
        say(f"  {text}")

    name = await train.ensure(bus, str(repository), "", verify="python3 -m compileall -q .")
    await train.board(bus, name, by_id)
    record, _ = await train.load(bus, name)
    record = await train.Train(bus, name, record, say=say_named).run(_is_over)
    return record.landed == len(by_id)


def _is_over(record: TrainRecord) -> bool:
    return record.paused is not None or not record.queue and not record.back


async def _submit(bus: Bus, repository: Path) -> dict[str, str]:
    names = {}
    for name in sample.ORDERS:
        order = sample.spec_of(name, repository)
        await client.submit(bus, [order])
        names[name] = order.id
    return names


async def _watch(bus: Bus, by_id: dict[str, str], say: Callable[[str], None]) -> None:
    """Show each change of an order. Raises LocalError as soon as one has failed."""
    from treadle.fleet.orders import read_order

    seen: dict[str, tuple[str, int]] = {}
    async for entry in client.changes(bus, start=1):
        order = read_order(entry)
        now = (order.state, order.attempt)
        if seen.get(order.id) != now:
            seen[order.id] = now
            more = f", attempt {order.attempt}" if order.attempt > 1 else ""
            say(f"  {by_id.get(order.id, order.id)}: {order.state}{more}" + (f" ({order.why})" if order.why else ""))
        if order.ended and order.state != "done" and order.id in by_id:
            raise LocalError(f"the order {by_id[order.id]} {order.state}: {order.why or 'no reason given'}")


async def _collision(bus: Bus, order: str) -> str:
    while True:
        waits = (await client.why(bus, order)).waits
        if waits is not None and waits.kind == "claim":
            return waits.text
        await asyncio.sleep(0.05)


async def _kill(bus: Bus, order: str, say: Callable[[str], None]) -> None:
    """Hand the order to another agent as soon as its own has begun, and kill the runner with SIGKILL meanwhile."""
    async for seen in client.events(bus, order, follow=True):
        if seen.n >= 3:
            break
    ours = (sys.executable, "-P", "-c", "from treadle.cli import main; main()")
    other = shlex.join([*ours, "acp", "--model", f"scripted:{sample.SHOP / 'discount.toml'}"])
    await client.hand(bus, order, f"acp:{other}", by="demo")
    say("discount is handed to another agent, which speaks ACP: treadle fleet hand")
    runner = runs.runner_of(runs.directory(order, 1))
    process = table.look(runner.pid) if runner is not None else None
    if process is not None and table.send(process, signal.SIGKILL):
        say(f"discount's runner, process {process.pid}, was killed (kill -9)")


async def _answer(bus: Bus, order: str, say: Callable[[str], None]) -> None:
    while not (asks := [ask for ask in await client.approvals(bus) if ask.order == order]):
        await asyncio.sleep(0.05)
    say(f"stock asks: {asks[0].words}")
    await client.answer(bus, order, "allow", by="demo")
    say("answered: allow, once")


def _check(repository: Path) -> str:
    done = run_program([sys.executable, "check_shop.py"], cwd=str(repository))
    return (done.complaint.splitlines() or ["?"])[-1]


def _card(orders: list[Any], by_id: dict[str, str], say: Callable[[str], None]) -> None:
    say("tokens, as the provider reported them (its price is unknown, so no cost is shown):")
    for order in orders:
        used, tries = order.used, len(order.attempts)
        tokens = f"{used.input_tokens:6} in {used.output_tokens:5} out"
        say(f"  {by_id[order.id]:10} {tokens}  {tries} attempt{'s' if tries > 1 else ''}")
    say(f"  {'together':10} {sum(order.used.tokens for order in orders):6}")


# The command itself, and its demonstration with one agent.

PROJECT = Path(__file__).parent / "demo_project"
CHECK = "check_prices.py"
PROMPT = f"The test in {CHECK} fails. Find out why and fix prices.py; the test is right."


@click.command("demo")
@click.option("--one", is_flag=True, help="Run the small demo: one agent, one failing test.")
@click.option("--model", metavar="NAME", help="Run the small demo with this real model.")
def demo(one: bool, model: str | None) -> None:
    """Watch agents fix failing tests in a temporary repository. No API key or network needed.

    Four orders run in parallel: one waits for another's files, one asks a question, one goes to another agent and
    survives a killed runner. Then all are merged and tested. With --one, or without the `fleet` extra, one agent fixes
    one test; --model runs that with a real model.
    """
    if not one and model is None:
        if has("fleet"):
            sys.exit(run())
        click.echo(f"This is the small demo. For the fleet's, with four agents at once: {adding('fleet')}\n", err=True)
    with scratch.directory("demo") as place:
        sys.exit(run_async(ended_by_signals(_demo_of_one(Path(place), model), "the demo")))


async def _demo_of_one(place: Path, model: str | None) -> int:
    page = Page(lambda: shutil.get_terminal_size().columns, colour=colourful(sys.stdout), flowing=True)

    def show(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    repository = _repository(place)
    spec = SessionSpec(
        cwd=str(repository),
        model=model or f"scripted:{PROJECT / 'script.toml'}",
        mode="full-auto",
        env={"PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ.get('PATH', os.defpath)}"},
        limits=Limits(max_iterations=10, max_seconds=50 if model is None else 1200),
        start=Start(persist=False),
    )
    show(page.note("bold", f"A repository with a failing test: {repository}"))
    show(page.note("bold", f"> {PROMPT}"))
    session = await find_agent("native").open(spec)
    totals = TurnTotals()
    try:
        async for event in run_turn(session, PROMPT):
            totals.add(event)
            show(page.feed(event))
    finally:
        await session.close()
    summary = totals.summary()
    show(page.total(summary))
    show(page.note("bold", "What changed (git diff):"))
    show(page.diff(uncommitted.patch(checkouts.around(str(repository)))[0].decode()))
    passes = await _passes(repository)
    show(
        page.note("bold", f"The test as it was at the start {'passes' if passes else 'still FAILS'} with this change.")
    )
    real = "all of it was real" if model else "scripted; the loop, the tools, the edit and the test were real"
    show(page.note("bold", f"The model's words: {real}."))
    return 0 if summary.outcome == "completed" and passes else 1


async def _passes(repository: Path) -> bool:
    """Judge the work by our copy of the test (an agent can change its own), in a sandbox if there is one."""
    asked = Confinement(network="off", write=(str(repository),))
    confinement = asked if wanted(asked, "full-auto") else None
    argv = [sys.executable, str(PROJECT / f"{CHECK}.txt")]
    env = {**reduced(os.environ), "PYTHONPATH": str(repository)}
    async with await start(confinement, argv, cwd=str(repository), env=env, stdin="pipe") as child:
        return (await consult(child, b"", timeout=60)).exit_code == 0


def _repository(place: Path) -> Path:
    repository = place / "shop"
    files = {name: read(str(PROJECT / f"{name}.txt")) for name in ("prices.py", CHECK)}
    first_commit(str(repository), files, "A shop with a wrong discount")
    return repository


if __name__ == "__main__":
    run_async(keep_fleet(sys.argv[1]))
