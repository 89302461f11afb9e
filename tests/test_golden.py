"""What others rely on, as it was when it was last looked at: `tests/golden` holds it, `UPDATE_GOLDEN=1` writes it anew.

A file that changes is read before it is kept: what is gone from it is gone for somebody.
"""

import importlib
import inspect
import json
import os
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import treadle
from tests.calls import ROOT, endings
from tests.wire.contract import Pair
from tests.wire.conversations import folders, wire
from treadle.agent.providers.script import parse
from treadle.cli.arguments import TERMINAL
from treadle.cli.heimdall.table import OF_TREADLE
from treadle.cli.help import every
from treadle.serve import server as openapi
from treadle.testing.server import Play, anthropic, chat, gemini, responses
from treadle.wire.sidecar import connection

GOLDEN = Path(__file__).parent / "golden"
ANY_ID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
OWN_ID = re.compile(r'(?<="uuid":")[0-9a-f-]{36}')
RENEW = bool(os.environ.get("UPDATE_GOLDEN"))


def same(name: str, text: str, own_version: str = treadle.__version__) -> None:
    path = GOLDEN / name
    text = text.replace(own_version, "VERSION") if own_version else text
    if RENEW:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == (path.read_text() if path.exists() else ""), f"UPDATE_GOLDEN=1 writes {name} anew"


def chapter(path: tuple[str, ...]) -> str:
    """The file with the help of a command: those of terminals and those of claims are together."""
    if path[0].startswith("heimdall-") or path[1:2] == ("coord",):
        return "coord"
    return "terminal" if path[1:2] and path[1] in TERMINAL else "-".join(path[:2])


CHAPTERS = sorted(set(map(chapter, every())))


@cache
def helps() -> dict[tuple[str, ...], str]:
    paths = [*every()] + [("treadle", "coord", name) for name in OF_TREADLE]
    words = [[*path, "--help"] for path in paths] + [["treadle", "-p", "--help"]]
    ended = endings(words)
    assert [argv for argv, (code, _, err) in zip(words, ended, strict=True) if code or err] == []
    return {tuple(argv[:-1]): out for argv, (_, out, _) in zip(words, ended, strict=True)}


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_help_of_every_command_is_as_it_was(name: str) -> None:
    shown = {path: text for path, text in helps().items() if chapter(path) == name}
    same(f"help/{name}.txt", "\n".join(f"$ {' '.join(path)} --help\n{text}" for path, text in shown.items()))


def told(text: str) -> str:
    """The first line, or the one with the error, before which click shows the usage; without what always differs."""
    lines = [line for line in text.splitlines() if line.startswith("Error: ")] or text.splitlines() or [""]
    return re.sub(r"\d+\.\d s", "N s", re.sub(r"haid:[\w.-]+", "haid:WHO", ANY_ID.sub("UUID", lines[0])))


def test_every_call_ends_as_it_did() -> None:
    """Rows of [argv, exit code, first line of stdout, first of stderr]; a new one needs only its argv.

    No row may start something that stays, or ask a service in the network.
    """
    path = GOLDEN / "calls.jsonl"
    words = [json.loads(line)[0] for line in path.read_text().splitlines()]
    rows = [[argv, code, told(out), told(err)] for argv, (code, out, err) in zip(words, endings(words), strict=True)]
    same(path.name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def test_the_http_interface_is_as_it_was() -> None:
    document: dict[str, Any] = json.loads(json.dumps(openapi.document()))
    parts = {
        f"{kind} {name}": part for kind, parts in document.pop("components").items() for name, part in parts.items()
    }
    paths = {f"{way} {path}": call for path, calls in document.pop("paths").items() for way, call in calls.items()}
    lines = {**document, **dict(sorted(paths.items())), **dict(sorted(parts.items()))}  # modules load in any order
    same("openapi.jsonl", "".join(json.dumps({name: part}, sort_keys=True) + "\n" for name, part in lines.items()))


def test_the_schemas_of_the_sidecar_contract_are_as_they_were() -> None:
    lines = (json.dumps({name: json.loads(connection.text(name))}, sort_keys=True) + "\n" for name in connection.TYPES)
    same("schemas.jsonl", "".join(lines))


@pytest.mark.parametrize("name", folders())
def test_the_sample_conversations_have_the_same_bytes(name: str) -> None:
    lines: list[str] = []
    for number, talk in enumerate(wire(name).samples, 1):
        pair = Pair(wire(name).connection)
        lines.append(f"conversation {number}\n")
        for role, message in talk:
            data = pair.ends[role].send(message)
            pair.other(role).receive(data)
            lines.append(f"{role}: {OWN_ID.sub('UUID', repr(data)[2:-1])}\n")
    same(f"wire/{name}.txt", "".join(lines))


def modules() -> Iterator[str]:
    yield from ("treadle", "treadle.fleet", "treadle.goals")
    for package in ("treadle.testing", "treadle.conform"):
        yield package
        for entry in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            yield entry.name


def public(module: str) -> set[str]:
    """What it is meant to offer: what it lists, or else the functions and classes that it defines."""
    loaded = importlib.import_module(module)
    if listed := getattr(loaded, "__all__", getattr(loaded, "_NAMES", None)):
        return set(listed) - {"__version__"}
    own = {name: thing for name, thing in vars(loaded).items() if getattr(thing, "__module__", "") == module}
    return {name for name, thing in own.items() if callable(thing) and name[0] != "_"}


def signature(thing: Any) -> str:
    """Its parameters and their defaults, without types, which every Python writes in its own way; mypy knows those."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in found.parameters.values()]
    plain = str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r"<function (\S+) at 0x\w+>", r"\1", plain)


def described(name: str, thing: Any) -> Iterator[str]:
    if not isinstance(thing, type):
        yield f"{name}{signature(thing) if inspect.isroutine(thing) else ''}\n"
        return
    yield f"{name}{(made := signature(thing))}\n"
    fields = {*getattr(thing, "__annotations__", ()), *dir(thing)} - set(dir(dict) if issubclass(thing, dict) else ())
    for field in sorted(field for field in fields if field[0] != "_" and field != "mro"):
        if re.search(rf"[( ]{field}\b", made):
            continue
        value = inspect.getattr_static(thing, field, None)
        yield f"    {name}.{field}{signature(getattr(thing, field)) if inspect.isroutine(value) else ''}\n"


def test_every_public_name_is_there_with_its_parameters() -> None:
    """A name stays where it is held to be, wherever it is defined."""
    path, held = GOLDEN / "names.txt", dict[str, set[str]]()
    for block in (path.read_text() if path.exists() else "").split("\n\n"):
        module, *lines = block.splitlines() or [""]
        held[module] = {match[1] for line in lines if (match := re.match(r"(\w+)", line))}
    blocks = []
    for module in sorted({*modules(), *filter(None, held)}):
        loaded = importlib.import_module(module)
        names = sorted(public(module) | held.get(module, set()))
        lines = [line for name in names for line in described(name, getattr(loaded, name))]
        blocks.append(f"{module}\n{''.join(lines)}")
    same(path.name, "\n".join(blocks))


# What a machine holds from an earlier version: units, and processes that go on and start others from the new sources.
STARTED = re.compile(
    r'"-m", "(treadle[\w.]+)"|-m (treadle[\w.]+) \{|program="(treadle[\w.]+)"|(?m:^NODE = "(treadle[\w.]+)")'
)
CALLED = re.compile(r'(?:run|spawn)\(\s*"(treadle[\w.]+)", "(\w+)"|from (treadle[\w.]*) import (\w+); \w+')


def test_what_a_running_or_installed_earlier_version_starts_is_still_there() -> None:
    """`installed.txt`: programs that are started with `python -m`, functions that are called by name."""
    source = "".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.py")))
    programs = {"".join(found) for found in STARTED.findall(source)}
    functions = {":".join(filter(None, found)) for found in CALLED.findall(source)}
    path = GOLDEN / "installed.txt"
    held = set(path.read_text().split("\n")) if path.exists() else set()
    wanted = sorted({*(f"-m {name}" for name in programs), *functions} | held - {""})
    for place in wanted:
        found = pkgutil.resolve_name(place.removeprefix("-m ").replace(":", "."))
        assert ":" in place or '__name__ == "__main__"' in inspect.getsource(found), f"python {place} does nothing"
    same(path.name, "".join(f"{place}\n" for place in wanted))


USED = "usage={input=10, output=9, cache_read=4, cache_write=2, reasoning=3}, cost=0.5"
REPLIES = [
    f"text='a b', repeat=2, thinking='c d', {USED}",
    "call=[{name='s::x', arguments='{bad'}, {name='y', arguments={a=1}, id='own'}]",
    "text='x', cost=0.5",
    *(f"text='no no', finish='{finish}'" for finish in ("tool_calls", "length", "refusal", "other")),
]


@pytest.mark.parametrize("form", [chat, responses, anthropic, gemini], ids=lambda form: form.name)
def test_a_reply_of_the_scripted_model_as_a_stream_and_as_a_document(form: Any) -> None:
    lines = []
    for toml in REPLIES:
        play = Play(reply=parse(f"reply=[{{{toml}}}]").reply[0], model="m", turn=1, id="1")
        lines += [f"# {toml}", *(event.decode().strip() for event in form.events(play)), json.dumps(form.whole(play))]
    same(f"model/{form.name}.txt", "\n".join(lines) + "\n")
