"""What a person types: lines, what comes early, history, completion, the clipboard, commands of their own."""

import os
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from treadle.cli.chat.command import Typed
from treadle.cli.chat.question import touched
from treadle.cli.chat.screen import PNG, ChatCompleter, save_image
from treadle.cli.chat.talk import own_command
from treadle.errors import ConfigError
from treadle.io.paths import state_dir
from treadle.session import CommandInfo

READING = """
import asyncio, sys
from treadle.cli.chat.lines import TypedLines

async def main():
    lines = TypedLines()
    try:
        print(f"<1 {await lines.line('one? ')!r}>", flush=True)
        print("<pause>", flush=True)
        await asyncio.to_thread(open(sys.argv[1]).read)
        print(f"<2 {await lines.line('two? ')!r}>", flush=True)
        print(f"<3 {await lines.line('three? ', fresh=True)!r}>", flush=True)
        for _ in range(2):
            try:
                await lines.line('four? ')
            except EOFError:
                print("<end>", flush=True)
    finally:
        lines.close()

asyncio.run(main())
"""


class Person:
    def __init__(self, gate: str) -> None:
        self._terminal, inner = os.openpty()
        self.before = termios.tcgetattr(inner)
        self._inner, self._gate = inner, gate
        self.process = subprocess.Popen([sys.executable, "-c", READING, gate], stdin=inner, stdout=inner, stderr=inner)
        self._seen = b""

    def types(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def goes_on(self) -> None:
        with open(self._gate, "w"):
            pass

    def sees(self, words: str) -> None:
        while words.encode() not in self._seen:
            self._seen += os.read(self._terminal, 4096)
        self._seen = self._seen.partition(words.encode())[2]

    def after(self) -> object:
        assert self.process.wait(60) == 0
        return termios.tcgetattr(self._inner)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._inner)
        os.close(self._terminal)


@pytest.fixture
def person(tmp_path: os.PathLike[str]) -> Iterator[Person]:
    gate = os.path.join(tmp_path, "gate")
    os.mkfifo(gate)
    made = Person(gate)
    yield made
    made.close()


def test_what_is_typed_is_there_in_the_next_chat_newest_first(tmp_path: Path) -> None:
    path = str(tmp_path / "typed.jsonl")
    first = Typed(path, {})
    for text in ("one", "two\nlines", "  "):
        first.store_string(text)
    assert list(Typed(path, {}).load_history_strings()) == ["two\nlines", "one"]
    first.append_string("three")
    assert first.get_strings() == ["three"] and list(first.load_history_strings())[0] == "three"
    assert (tmp_path / "typed.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_secret_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "typed.jsonl"
    history = Typed(str(path), {"MY_API_KEY": "hush-hush-hush"})
    history.store_string("use hush-hush-hush there")
    assert not path.exists()


def test_a_broken_line_and_a_missing_file_cost_nothing(tmp_path: Path) -> None:
    path = tmp_path / "typed.jsonl"
    assert list(Typed(str(path), {}).load_history_strings()) == []
    path.write_text('"a"\n{broken\n3\n"b"\n')
    assert list(Typed(str(path), {}).load_history_strings()) == ["b", "a"]


COMMANDS = [CommandInfo(name="model", description="Change it.", arguments="[NAME]"), CommandInfo(name="mode")]


def offered(cwd: Path, text: str) -> list[str]:
    completer = ChatCompleter(str(cwd), lambda: COMMANDS)
    return [one.text for one in completer.get_completions(Document(text), CompleteEvent())]


def test_files_after_an_at_without_what_git_ignores(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("build/\n")
    for name in ("src/parser.py", "src/deep/parser_test.py", "build/parser.o"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert offered(tmp_path, "look at @parser") == ["src/parser.py", "src/deep/parser_test.py"]
    assert offered(tmp_path, "me@parser") == []


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", str(place))
    return place


def reader(place: Path, name: str, body: str) -> None:
    (place / name).write_text(f"#!/bin/sh\n{body}\n")
    (place / name).chmod(0o755)


def test_the_first_program_that_has_an_image_gives_it(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(PNG + b"rest\x00\xff")
    reader(programs, "wl-paste", "echo no image; exit 1")
    reader(programs, "xclip", f"test $5 = -out && exec /bin/cat {tmp_path}/image")
    kept = Path(save_image())
    assert kept.read_bytes() == PNG + b"rest\x00\xff" and kept.suffix == ".png"
    assert kept.parent == Path(state_dir(), "pasted") and kept.parent.stat().st_mode & 0o077 == 0
    assert save_image() != str(kept), "each is a file of its own"


def test_without_such_a_program_it_says_which_to_install(programs: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        save_image()
    assert "wl-paste, xclip, pngpaste" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo a > out.txt", "writes out.txt (new)"),
        ("echo a >> there.txt", "writes there.txt"),
        ("rm -rf folder && sed -i s/a/b/ there.txt", "names folder, there.txt"),
        ("cat there.txt | tee out.txt", "writes out.txt (new); names there.txt"),
        ("pytest -q", "Files: none named"),
        ("echo '' -x", "Files: none named"),
        ("ls | sh", "not all of it can be understood: a shell that reads its commands from its input"),
        ("cp " + " ".join(f"f{number}" for number in range(10)), "names f0, f1, f2, f3, f4, f5, f6, f7 and 2 more"),
    ],
)
def test_it_says_where_a_command_writes_and_what_it_names(tmp_path: Path, command: str, said: str) -> None:
    (tmp_path / "there.txt").touch()
    (tmp_path / "-x").touch()
    (tmp_path / "folder").mkdir()
    for number in range(10):
        (tmp_path / f"f{number}").touch()
    assert touched(command, str(tmp_path)) == said


@given(st.text(max_size=100))
def test_any_command_has_an_answer_of_words(command: str) -> None:
    assert touched(command, "/nowhere")


async def test_lines_are_shown_whole_however_they_come(tmp_path: Path) -> None:
    shown: list[str] = []
    await own_command("printf 'one '; sleep 0.05; printf 'line\\nand a rest'", str(tmp_path), shown.append)
    assert shown == ["one line\n", "and a rest\n"]
