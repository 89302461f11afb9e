"""The docs and the code say the same: names, events, errors, commands, links, and the examples run."""

import asyncio
import json
import os
import re
import shlex
import types
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
import pytest
from click.testing import CliRunner

import treadle
from tests.streams import pair
from treadle import errors, events
from treadle.cli.help import every
from treadle.cli.root import COMMANDS, GROUPS, load
from treadle.cli.root import treadle as treadle_command
from treadle.cli.terminal.listed import SmallCommand
from treadle.wire.fleet.connection import SUBJECTS
from treadle.wire.fleet.keys import BUCKET, KEYS, NODE, Key
from treadle.wire.fleet.orders import Spec, declared
from treadle.wire.fleet.states import ATTEMPT, ORDER, QUESTION

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
TEXT = {page: page.read_text() for page in PAGES}


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_every_public_name_is_there_and_documented() -> None:
    for name in treadle.__all__:
        assert getattr(treadle, name) is not None
        assert f"`{name}" in page("reference/python-api.md"), name


def test_every_event_is_documented_with_its_type() -> None:
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, events.Event)]
    for kind in kinds:
        if kind is not events.Event:
            assert f"- `{kind.__name__}` (`{kind.__struct_config__.tag}`): " in page("reference/events.md"), kind


def test_the_list_of_errors_is_made_from_the_tree_in_their_docstring() -> None:
    rows = []
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.TreadleError):
            found = re.search(rf"(?m)^[│├└─ ]*{kind.__name__}\b *(?:{kind.code}\b *)?(.*)$", errors.__doc__ or "")
            assert found, f"{kind.__name__} is not in the tree"
            retryable = ", retryable" if kind.retryable else ""
            rows.append(f"- `{kind.code}` (`{kind.__name__}`{retryable}): {found[1].strip()}\n")
    made(ROOT / "docs" / "reference" / "errors.md", "errors", "".join(rows))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_teaches_itself(name: str) -> None:
    command = load(COMMANDS[name])
    assert command.help and command.get_short_help_str()


def every_command() -> Iterator[click.Command]:
    found = [load("treadle.cli.oneshot:oneshot"), *(load(place) for place in COMMANDS.values())]
    for command in found:
        yield command
        if isinstance(command, click.Group):
            found += command.commands.values()


def test_every_option_says_what_it_does() -> None:
    options = [(command, option) for command in every_command() for option in command.params]
    assert len(options) > 80
    for command, option in options:
        if isinstance(option, click.Option) and not option.hidden and not isinstance(command, SmallCommand):
            assert option.help, f"{command.name} {option.opts}"


SMALL = {" ".join(path): one.small for path, one in every().items() if isinstance(one, SmallCommand)}
ALSO = {*"-n --follow --tool-version --bar --force --wait-idle --config --socket-dir --session-env-var".split()}
"""Other spellings, and what is kept for old scripts, or told for all commands in one place."""


@pytest.mark.parametrize("name", SMALL)
def test_the_help_of_a_small_command_has_what_it_takes(name: str) -> None:
    small = SMALL[name]
    takes = {*f"{small.options} {small.flags} {small.many}".split()}
    words, usage = small.help, "\n".join(re.findall(rf"(?m)^ *{name.replace('coord ', '')} .*", small.help))
    told, used = (set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text)) for text in (words, usage))
    assert takes - told <= ALSO and all(re.search(rf"\b{each}\b", words) for each in small.commands)
    assert used <= takes, "the help names what it does not take"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_mentions_only_commands_and_pages_that_exist(path: Path) -> None:
    for name in re.findall(r"`treadle ([a-z][a-z0-9-]*)", TEXT[path]):
        assert name in (*COMMANDS, "version"), f"`treadle {name}` does not exist"
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", TEXT[path]):
        assert (path.parent / target).exists(), f"{target} does not exist"


def test_the_skill_types_only_commands_and_options_that_exist() -> None:
    text = CliRunner().invoke(treadle_command, ["--skill"]).output
    typed = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in re.split(r"[\n;]", block)]
    typed += re.findall(r"`((?:treadle|heimdall-)[^`]*)`", text)
    known, seen = every(), 0
    for words in (shlex.split(line, comments=True) for line in typed):
        if not words or words[1:2] in (["COMMAND"], []):
            continue
        names = [tuple(words[:count]) for count in (3, 2, 1) if tuple(words[:count]) in known]
        command = load("treadle.cli.oneshot:oneshot") if "-p" in words else known[names[0]]
        in_words = re.findall(r"--[a-z-]+", command.help or "")
        has = {*in_words, *(name for param in command.params for name in param.opts)}
        gone = {word for word in takewhile(lambda word: word != "--", words) if word.startswith("--")} - has
        assert not gone, f"{words}: {gone}"
        seen += 1
    assert text.startswith("---\nname: treadle\ndescription: ") and seen > 15


def made(path: Path, begin: str, text: str) -> None:
    """A part of a page that is made from the code; `UPDATE_DOCS=1` writes it anew."""
    before, _, rest = path.read_text().partition(f"<!-- {begin}: begin -->\n")
    shown, _, after = rest.partition(f"<!-- {begin}: end -->")
    if os.environ.get("UPDATE_DOCS"):
        path.write_text(f"{before}<!-- {begin}: begin -->\n{text}<!-- {begin}: end -->{after}")
    else:
        assert shown == text, f"UPDATE_DOCS=1 writes {path.name} anew"


def _fields(kind: Any) -> str:
    """The fields of a message: those that must be there first, the others in brackets."""
    if isinstance(kind, types.UnionType):
        return "one of " + ", ".join(f"`{each.__struct_config__.tag}`" for each in get_args(kind))
    fields = msgspec.structs.fields(kind)
    must = [f"`{field.encode_name}`" for field in fields if field.required]
    may = [f"`{field.encode_name}`" for field in fields if not field.required]
    return ", ".join(must) + (f" [{', '.join(may)}]" if may else "") or "nothing"


def _writers(key: Key[Any]) -> str:
    roles = {"submit": "who may submit", "worker": "the node itself" if key is NODE else "a worker"}
    return ", ".join(roles[role] for role in key.by)


def test_the_list_of_keys_is_made_from_the_wire() -> None:
    theirs = [key for key in KEYS if key.by or key.word in ("order", "receipt", "ask")]
    rows = []
    for key in theirs:
        content = "as in [Fields](#fields)" if key.kind is Spec else _fields(key.kind)
        rows.append(f"- `{key.pattern}` ({'; '.join(filter(None, [_writers(key), key.lives]))}): {content}\n")
    made(ROOT / "docs" / "reference" / "fleet.md", "keys", "".join(rows))


def test_the_list_of_subjects_is_made_from_the_wire() -> None:
    subjects = {each.pattern: each for each in SUBJECTS if not each.pattern.startswith(BUCKET)}
    ours = [pattern for pattern in subjects if re.match(r"fleet\.(in\.node|beat|tell)", pattern)]
    rows = [f"- `{name}`: {_fields(each.type)}\n" for name, each in subjects.items() if name not in ours]
    made(ROOT / "docs" / "reference" / "fleet.md", "subjects", "".join(rows))


def test_the_lists_of_states_are_made_from_their_tables() -> None:
    tables: dict[str, Mapping[tuple[str, str], str]] = {"order": ORDER, "attempt": ATTEMPT, "question": QUESTION}
    rows = []
    for name, table in tables.items():
        for state in dict.fromkeys(before for before, _ in table):
            after = dict.fromkeys(f"`{end}`" for (before, _), end in table.items() if before == state)
            rows.append(f"- {name} `{state}`: {', '.join(after)}\n")
    made(ROOT / "docs" / "reference" / "fleet.md", "states", "".join(rows))


def test_the_list_of_an_order_is_made_from_its_declaration() -> None:
    alike, rows = [], []
    for field in declared():
        default = "" if field.default in (None, "", (), False) or field.reads == "policy" else f" (`{field.default}`)"
        if field.option == "--" + field.path.replace("_", "-"):
            alike.append(f"`{field.path}`{default}")
        else:
            rows.append(f"- `{field.path}`{default}: {f'`{field.option}`' if field.option else field.meaning}\n")
    rows.append(f"\nAs the options of the same names: {', '.join(alike)}.\n")
    made(ROOT / "docs" / "reference" / "fleet.md", "fields", "".join(rows))


def test_the_index_lists_every_page_under_its_kind() -> None:
    kinds = {"tutorials": "Tutorials", "how-to": "How to", "explanation": "Explanations", "reference": "Reference"}
    lines = []
    for kind, title in kinds.items():
        lines.append(f"## {title}\n\n")
        for path in sorted((ROOT / "docs" / kind).glob("*.md")):
            heading = path.read_text().partition("\n")[0].removeprefix("# ")
            lines.append(f"- [{heading}]({kind}/{path.name})\n")
        lines.append("\n")
    made(ROOT / "docs" / "README.md", "pages", "".join(lines))
    assert not [path for path in DOCS if path.parent == ROOT / "docs" and path.name != "README.md"]


def test_the_page_of_commands_is_made_from_them() -> None:
    rows = []
    for purpose, group in GROUPS.items():
        rows.append(f"- {purpose}: {', '.join(f'`{name}`' for name in group)}\n")
    made(ROOT / "docs" / "reference" / "commands.md", "commands", "".join(rows))


def test_whatever_lists_something_has_json() -> None:
    commands = every().items()
    listing = {
        path: one for path, one in commands if (one.help or "").startswith("List ") and not isinstance(one, click.Group)
    }
    assert len(listing) > 8
    assert [path for path, one in listing.items() if not any("--json" in option.opts for option in one.params)] == []


def test_the_example_of_the_api_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(tmp_path, "It weaves.")
    monkeypatch.chdir(tmp_path)
    exec(compile(code_of("docs/reference/python-api.md"), "python-api.md", "exec"), {})
    assert capsys.readouterr().out == "It weaves.\n"


def code_of(path: str) -> str:
    """The first piece of Python on a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(), re.DOTALL)[0]


def scripted(directory: Path, text: str) -> str:
    (directory / "script.toml").write_text(f'[[reply]]\ntext = "{text}"\n')
    return f"scripted:{directory}/script.toml"


def test_the_example_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TREADLE_MODEL", scripted(tmp_path, "A comma."))
    monkeypatch.chdir(tmp_path)
    exec(compile(code_of("README.md"), "README.md", "exec"), {})
    assert "text='A comma.'" in capsys.readouterr().out.splitlines()[-1]


async def test_the_door_of_the_how_to_page_is_one(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile((ROOT / "examples/door.py").read_text(), "door.py", "exec"), names)
    client, theirs = pair()
    spec = treadle.SessionSpec(cwd=str(tmp_path), model=scripted(tmp_path, "Good day."))
    serving = asyncio.create_task(names["Lines"](treadle.find_agent(), theirs).run(spec))
    await client.write(b"hello\nand again\n")
    client.close_write()
    assert await serving == 0
    theirs.close()
    answers = [json.loads(line) for line in (await client.read()).splitlines()]
    assert answers[0] == {"answer": "Good day.", "error": None}
    assert answers[1]["answer"] == "" and "no reply left" in answers[1]["error"]


def test_help_and_errors_name_pages_that_an_installation_has() -> None:
    from treadle.cli.help import pages

    names = {page.name for page in pages()}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for name in re.findall(r"treadle docs ([a-z][\w.-]*\w)", path.read_text()):
            assert name in names, f"{path}: `treadle docs {name}` shows nothing"
    for command in every_command():
        for text in (command.help, command.epilog, *(getattr(param, "help", "") for param in command.params)):
            assert "docs/" not in (text or ""), f"{command.name} names a file that only a checkout has"


def test_every_field_of_a_session_spec_is_on_the_page_of_the_library() -> None:
    for field in treadle.SessionSpec.__struct_fields__:
        assert f"- `{field}`" in page("reference/python-api.md"), field


def test_every_entry_of_the_state_directory_is_on_its_page() -> None:
    """Found in the source: what is joined to `state_dir()`."""
    page = (ROOT / "docs" / "reference" / "state-directory.md").read_text()
    source = "".join(path.read_text() for path in (ROOT / "src" / "treadle").rglob("*.py"))
    entries = set(re.findall(r'state_dir\(\)\)?, "([\w.-]+)"', source))
    assert len(entries) > 12
    assert [entry for entry in sorted(entries) if f"`{entry}" not in page] == []


def _anchors(path: Path) -> set[str]:
    """The places in a page that a link can name, as GitHub makes them from its headings."""
    heads = re.findall(r"(?m)^#+ (.*)$", path.read_text())
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"[`*]", "", head.strip())) for head in heads]
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in plain}


def test_no_link_names_a_place_that_its_page_does_not_have() -> None:
    dead = []
    for page in [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]:
        for place, anchor in re.findall(r"\]\(([^)\s#:]*)#([^)]*)\)", page.read_text()):
            target = page.parent / place if place else page
            if target.suffix == ".md" and anchor not in _anchors(target):
                dead.append(f"{page.relative_to(ROOT)}: {place}#{anchor}")
    assert dead == []
