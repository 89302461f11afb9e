"""Settle the agent and the model of a run: what was said, else what was remembered, else what is found here."""

import msgspec

from treadle.cli.choosing.remembering import remember, say
from treadle.cli.choosing.ways import Found, Way, local_words, look
from treadle.cli.options import RunOptions
from treadle.cli.render import printable
from treadle.errors import NoModel

ONCE = "--model NAME or --agent NAME"


async def settle(options: RunOptions, *, talks: bool, plain: bool = False) -> RunOptions:
    """The same options with an agent and a model.

    With `talks` a person is at the terminal and can choose. Otherwise the only thing found is used and named on stderr;
    several, or none, is refused.
    """
    if options.chosen():
        return options
    for each in options.loaded().unreachable:
        say(each)
    way = await _at_terminal(plain) if talks else _only(await look())
    return msgspec.structs.replace(options, agent=way.agent, model=way.model)


def _only(found: Found) -> Way:
    if len(found.ways) == 1:
        say(_used(found.ways[0]))
        return found.ways[0]
    if found.ways:
        names = ", ".join(way.name for way in found.ways)
        hint = f"choose one with `treadle models use NAME`, or for this run with {ONCE}"
        raise NoModel(f"No model is configured, and several could be used here: {names}", hint=hint)
    nearly = "".join(f"; {each}" for each in found.not_yet)
    hint = f"set a key such as ANTHROPIC_API_KEY, or see all ways with `treadle models use`{nearly}"
    raise NoModel("No model is configured, and no key, agent, server or local model was found here", hint=hint)


def _used(way: Way) -> str:
    return f"using {way.name}: {way.because}. `treadle models use {way.name}` keeps it; {ONCE} takes another."


async def _at_terminal(plain: bool) -> Way:
    say("No model is configured yet; looking for keys, agents and local models...")
    found = await look()
    if not found.ways:
        return await _fetched(found, plain)
    if len(found.ways) == 1:
        say(_used(found.ways[0]))
        return found.ways[0]
    return await pick(found, plain)


async def pick(found: Found, plain: bool) -> Way:
    """Let the person choose, and remember it."""
    from treadle.cli.choosing.picker import choose_row

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


async def _fetched(found: Found, plain: bool) -> Way:
    """Nothing is usable yet: say what to type for each way, and offer to fetch the local model."""
    from treadle.cli.choosing.fetch import fetch_local, ways_in
    from treadle.cli.choosing.picker import choose_key

    print(printable(ways_in(found.not_yet)))
    if await choose_key(f"l  fetch the small local model now ({local_words()})\nq  leave", "lq", plain) != "l":
        raise NoModel("No model is configured", hint="`treadle demo` shows it at work without one")
    name = await fetch_local(plain)
    return Way(kind="local", name=name, because="it was fetched")
