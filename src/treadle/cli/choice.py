"""Which agent and model a run uses: as given, as remembered, or as chosen from what is found on this machine."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from treadle.agent.providers.http import loopback
from treadle.agent.providers.names import VENDORS, ModelSettings, endpoint, model_settings, resolve
from treadle.cli.chat.lines import TypedLines
from treadle.cli.options import RunOptions
from treadle.cli.render import printable
from treadle.errors import ConfigError, NoModel, TreadleError
from treadle.io.paths import here
from treadle.settings import config
from treadle.settings.edit import choose

# What choosing prints, and what it stores in the settings.


def remember(name: str, agent: str, model: str | None) -> str:
    """Write the choice into the person's settings; says what was done."""
    path = choose(agent=None if agent == "native" else agent, model=model)
    return f"{name} is used from now on (saved in {path})."


def say(text: str) -> None:
    print(f"treadle: {printable(text)}", file=sys.stderr, flush=True)


# Which models a service offers right now.

SECONDS = 10.0


class ListedModels(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    models: list[str] = []
    error: str | None = None


async def ask(name: str, settings: ModelSettings | None = None) -> ListedModels | None:
    """The models that this service offers; None when the service is not set up."""
    try:
        provider = resolve(f"{name}:any", os.environ, settings)
    except ConfigError:
        return None
    try:
        async with asyncio.timeout(SECONDS):
            return ListedModels(name=name, models=await provider.models())
    except TimeoutError:
        return ListedModels(name=name, error=f"no answer within {SECONDS:g} s")
    except TreadleError as error:
        return ListedModels(name=name, error=str(error))
    finally:
        await provider.aclose()


# Choose one of a few rows with the arrow keys. Numbers work too, and without a screen.

T = TypeVar("T")
LEAVE = ("escape", "q", "c-c", "c-d")


async def choose_row(title: str, rows: Sequence[str], plain: bool = False) -> int | None:
    """The number of the chosen row, or None when the person chose nothing."""
    if plain:
        return await _numbered(title, rows)
    from prompt_toolkit.application import Application
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.layout import Layout, Window
    from prompt_toolkit.layout.controls import FormattedTextControl

    at, keys = 0, KeyBindings()

    def drawn() -> StyleAndTextTuples:
        parts: StyleAndTextTuples = [("bold", f"{title}\n")]
        for number, row in enumerate(rows):
            here = number == at
            parts.append(("bold" if here else "", f"{'>' if here else ' '} {number + 1}  {row}\n"))
        return [*parts, ("ansibrightblack", "arrows and Enter, or a number; q leaves")]

    def move(by: int) -> None:
        nonlocal at
        at = (at + by) % len(rows)

    for names, by in ((("up", "k", "c-p"), -1), (("down", "j", "c-n", "tab"), 1)):
        for name in names:
            keys.add(name)(lambda event, by=by: move(by))
    for number in range(min(9, len(rows))):
        keys.add(str(number + 1))(lambda event, number=number: event.app.exit(result=number))
    for name in LEAVE:
        keys.add(name, eager=name != "escape")(lambda event: event.app.exit(result=None))

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result=at)

    window = Window(FormattedTextControl(drawn, show_cursor=False), dont_extend_height=True, wrap_lines=True)
    app: Application[int | None] = Application(Layout(window), key_bindings=keys, erase_when_done=True)
    return await app.run_async()


async def _numbered(title: str, rows: Sequence[str]) -> int | None:
    print(title)
    for number, row in enumerate(rows, 1):
        print(f"{number}  {row}")
    answers: dict[str, int | None] = {str(number + 1): number for number in range(len(rows))}
    return await _typed(f"1-{len(rows)}, or nothing to leave: ", {**answers, "": None})


async def _typed(prompt: str, answers: Mapping[str, T]) -> T | None:
    """What the line that a person types stands for; asked again until it is one of these. None: they left."""
    lines = TypedLines()
    try:
        while True:
            answer = (await lines.line(prompt)).strip().lower()
            if answer in answers:
                return answers[answer]
    except EOFError:
        return None
    finally:
        lines.close()


# Nothing is set up: what to type for each way.

FIRST = {"claude": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI"}
"""Agents that are named to a person who does not have them; `treadle agents` lists all."""


def ways_in(not_yet: tuple[str, ...]) -> str:
    """What to type, one line for each way."""
    from treadle.drivers.card import cards

    rows = [(f"export {vendor.key}=...", f"a key for {name}") for name, vendor in VENDORS.items() if vendor.key]
    missing = {name: title for name, title in FIRST.items() if shutil.which(cards()[name].program) is None}
    rows += [(cards()[name].install, f"{title}; then run `{name}` once and sign in") for name, title in missing.items()]
    rows.append(("ollama serve", "Ollama, with a model that calls tools"))
    rows.append(("export TREADLE_BASE_URL=http://...", "any other server that speaks OpenAI's chat protocol"))
    width = max(len(typed) for typed, _ in rows)
    lines = ["Nothing is set up on this machine yet. Any one of these is enough; then type `treadle` again:", ""]
    lines += [f"  {typed:{width}}  {what}" for typed, what in rows]
    if not_yet:
        lines += ["", "Nearly there:", *(f"  {each}" for each in not_yet)]
    return "\n".join([*lines, ""])


# What this machine could work with right now: keys, a server, agents that are installed.

GREETING = 20.0
"""Seconds that an installed agent has to say whether it is signed in."""
SERVER = 3.0
SHOWN = 20
"""At most so many models of one server are offered; `treadle models` lists all."""


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be used now. `name` is what `treadle models use` takes."""

    kind: Literal["key", "server", "agent"]
    name: str
    because: str
    signed_in: bool = True
    """False where an agent does not say so: it might send the prompt to a service that the person has not chosen."""

    @property
    def agent(self) -> str:
        return self.name if self.kind == "agent" else "native"

    @property
    def model(self) -> str | None:
        return None if self.kind == "agent" else self.name


class Found(msgspec.Struct, frozen=True, kw_only=True):
    ways: tuple[Way, ...] = ()
    not_yet: tuple[str, ...] = ()
    """What is nearly usable, and what is missing, one sentence each."""


async def look(env: Mapping[str, str] | None = None) -> Found:
    """Look at everything at once. Nothing is sent to a model, and no service outside this machine is contacted."""
    env = os.environ if env is None else env
    settings = model_settings(config.load(here(), env).settings.models)
    servers, agents = await asyncio.gather(_servers(env, settings), _agents())
    ways = (*_keys(env, settings), *servers.ways, *agents.ways)
    return Found(ways=ways, not_yet=(*servers.not_yet, *agents.not_yet))


def _keys(env: Mapping[str, str], settings: ModelSettings) -> list[Way]:
    if env.get("TREADLE_BASE_URL") or settings.base_url:
        return []  # then every model is asked for there
    found = []
    for name, vendor in VENDORS.items():
        variables = [variable for variable in (vendor.key, vendor.base) if variable and env.get(variable)]
        if variables and vendor.default:
            found.append(
                Way(
                    kind="key",
                    name=f"{name}:{vendor.default}",
                    because=f"{' and '.join(variables)} {'is' if len(variables) == 1 else 'are'} set",
                )
            )
    return found


async def _servers(env: Mapping[str, str], settings: ModelSettings) -> Found:
    """The models of a server of the person's own: the one at TREADLE_BASE_URL, else an Ollama on this machine."""
    name = "chat" if env.get("TREADLE_BASE_URL") or settings.base_url else "ollama"
    try:
        where = endpoint(name, env, settings).base_url
        async with asyncio.timeout(SERVER):
            offered = await ask(name, settings)
    except TimeoutError:
        return Found(not_yet=(f"the server at {where} gave no answer within {SERVER:g} s",))
    except TreadleError as error:
        return Found(not_yet=(str(error),))
    if offered is None or offered.error is not None:
        quiet = name == "ollama" and loopback(where) and not env.get("OLLAMA_HOST")  # most machines have none
        return Found(not_yet=() if quiet or offered is None else (f"the server at {where}: {offered.error}",))
    if not offered.models:
        missing = "`ollama pull MODEL` fetches one" if name == "ollama" else "load one there"
        return Found(not_yet=(f"the server at {where} has no model: {missing}",))
    because = f"the server at {where} has it"
    return Found(
        ways=tuple(Way(kind="server", name=f"{name}:{each}", because=because) for each in offered.models[:SHOWN])
    )


async def _agents() -> Found:
    """The agents that are installed, greeted in an empty directory: in the project they might run its hooks."""
    from treadle.cli.agents import greeted

    with tempfile.TemporaryDirectory(prefix="treadle-look-") as empty:
        found = await greeted(empty, GREETING)
    ways, not_yet = [], []
    for each in found:
        if each.answers and each.account != "":
            signed = "installed and signed in" if each.account else "installed; whether it is signed in is unknown"
            because = f"{each.title} {each.version}: {signed}"
            ways.append(Way(kind="agent", name=each.name, because=because, signed_in=bool(each.account)))
        elif each.account == "":
            not_yet.append(f"{each.name} is installed, but not signed in: run `{each.name}` once and sign in")
        else:
            not_yet.append(f"{each.name} is installed, but does not answer: {each.error}")
    return Found(ways=tuple(ways), not_yet=tuple(not_yet))


# Settle the agent and the model of a run: what was said, else what was remembered, else what is found here.

ONCE = "--model NAME or --agent NAME"


async def settle(options: RunOptions, *, talks: bool, plain: bool = False) -> RunOptions:
    """The same options with an agent and a model.

    With `talks` a person is at the terminal and can choose. Otherwise the only thing found is used and named on stderr;
    several, none, or an agent that does not report whether it is signed in, is refused.
    """
    if options.chosen():
        return options
    for each in options.loaded().unreachable:
        say(each)
    way = await _at_terminal(plain) if talks else _only(await look())
    return msgspec.structs.replace(options, agent=way.agent, model=way.model)


def _only(found: Found) -> Way:
    if way := _obvious(found):
        return way
    if len(found.ways) == 1:
        raise NoModel(
            f"No model is configured, and {found.ways[0].name} does not report whether it is signed in",
            hint=f"`treadle models use {found.ways[0].name}` uses it anyway; for one run, use {ONCE}",
        )
    if found.ways:
        names = ", ".join(way.name for way in found.ways)
        hint = f"choose one with `treadle models use NAME`, or for this run with {ONCE}"
        raise NoModel(f"No model is configured, and several could be used here: {names}", hint=hint)
    nearly = "".join(f"; {each}" for each in found.not_yet)
    hint = f"set a key such as ANTHROPIC_API_KEY, see all ways with `treadle models use`, or try `treadle demo`{nearly}"
    raise NoModel("No model is configured, and no key, agent or server was found here", hint=hint)


def _obvious(found: Found) -> Way | None:
    """The only thing found, if it is sure to be the person's own. It is named."""
    if len(found.ways) != 1 or not found.ways[0].signed_in:
        return None
    way = found.ways[0]
    say(f"using {way.name}: {way.because}. `treadle models use {way.name}` makes it the default; {ONCE}: another.")
    return way


async def _at_terminal(plain: bool) -> Way:
    say("No model is configured yet; looking for keys, agents and servers...")
    found = await look()
    if not found.ways:
        print(printable(ways_in(found.not_yet)))
        raise NoModel("No model is configured", hint="`treadle demo` runs without one")
    return _obvious(found) or await pick(found, plain)


async def pick(found: Found, plain: bool) -> Way:
    """Let the person choose, and remember it."""

    width = max(len(way.name) for way in found.ways)
    rows = [f"{way.name:{width}}  {way.because}" for way in found.ways]
    for each in found.not_yet:
        say(each)
    number = await choose_row("Which one should Treadle use?", rows, plain)
    if number is None:
        raise NoModel("No model was chosen", hint=f"choose later with `treadle models use`, or with {ONCE}")
    way = found.ways[number]
    say(f"{remember(way.name, way.agent, way.model)} `treadle models use` changes it.")
    return way
