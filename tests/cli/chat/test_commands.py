"""The chat's own commands and keys, on a real terminal, and choosing what they are about."""

import base64
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.chat.terminal import ChatTerminal
from tests.installed import TREADLE
from tests.scripts import calls, says
from tests.stand_ins.sessions import ScriptedSession
from treadle.agent.messages import UserMessage
from treadle.agent.transcript import MessageRecord, Transcript
from treadle.cli.chat.page import Page
from treadle.cli.chat.talk import COMMANDS, COPIED_MAX
from treadle.errors import ConfigError, Unsupported
from treadle.io.paths import config_file
from treadle.session import AgentInfo, SessionSpec, Start

Chat = Callable[..., ChatTerminal]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def settings(text: str) -> None:
    path = Path(config_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.slow
def test_a_question_waits_for_the_person_for_ever(chat: Chat, work: Path) -> None:
    settings("[timeouts]\nquestion = 1\n")
    terminal = chat()
    terminal.say("make it")
    seen = terminal.until(r"waiting for you 0:0[3-9]")
    assert "no answer is a no" not in seen
    terminal.keys("y")
    terminal.until("It is written")
    assert (work / "made.txt").exists()


def test_escape_twice_goes_back_with_the_files(chat: Chat, work: Path) -> None:
    terminal = chat("--permission-mode", "auto-edit")
    terminal.say("make it")
    terminal.until("It is written")
    terminal.ready()
    terminal.keys("\x1b\x1b")
    seen = terminal.until("Go back to before which turn")
    assert "made.txt" in seen
    terminal.keys("\r")
    terminal.until("And the files")
    terminal.keys("\r")
    terminal.until(r"Removed: made\.txt")
    assert not (work / "made.txt").exists()


@pytest.mark.slow
def test_keys_can_be_changed_in_the_settings(chat: Chat, begin: Chat) -> None:
    settings('[chat.keys]\nmode = "c-t"\n')
    terminal = chat()
    terminal.keys("\x14")
    terminal.until(r"(?m)^scripted · auto-edit")
    for wrong in ('fly = "c-t"', 'mode = "ctrl+t"'):
        settings(f"[chat.keys]\n{wrong}\n")
        assert "[chat.keys]" in begin().until("chat.keys")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_chat_is_on_its_page(name: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "chat.md"
    assert f"`/{name}" in page.read_text()


class Quiet:
    """A view that shows nothing but what is printed."""

    def __init__(self, plain: bool = False) -> None:
        self.plain = plain
        self.text = ""
        self._vim = False

    def print(self, text: str) -> None:
        self.text += text

    def vim(self) -> bool:
        self._vim = not self._vim
        return self._vim


class Conversation:
    def __init__(self, cwd: Path, name: str = "native", id: str = "", plain: bool = False) -> None:
        self.session = ScriptedSession(SessionSpec(cwd=str(cwd), start=Start(id=id) if id else Start()), [])
        self.session._info = AgentInfo(name=name)
        self.view = Quiet(plain)
        self.page = Page(lambda: 60, colour=False)
        self.cwd = str(cwd)
        self.queued: deque[str] = deque()
        self.last_text = ""

    async def __call__(self, name: str, args: str = "") -> str | None:
        return await COMMANDS[name].run(self, args)


async def test_the_last_answer_is_copied_unless_it_is_too_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = Conversation(tmp_path)
    assert await talk("copy") == "There is no answer to copy yet." and capsys.readouterr().out == ""
    for size in (1, COPIED_MAX):
        talk.last_text = "x" * size
        assert f"({size:,} bytes)" in str(await talk("copy"))
        assert capsys.readouterr().out == f"\x1b]52;c;{base64.b64encode(b'x' * size).decode()}\x1b\\"
    talk.last_text += "x"
    with pytest.raises(ConfigError, match="100,001 bytes, more than terminals accept"):
        await talk("copy")
    assert capsys.readouterr().out == ""


async def test_a_session_is_exported_in_the_form_that_its_name_says(tmp_path: Path) -> None:
    kept = Transcript.create(cwd=str(tmp_path), model="m")
    kept.append(MessageRecord(turn="t", message=UserMessage(text="hello there")), sync=True)
    kept.close()
    talk = Conversation(tmp_path, id=kept.header.id)
    assert await talk("export") == f"The session is in {tmp_path}/{kept.header.id}.md."
    for name, begins in (("a.md", "#"), ("a.json", "{")):
        assert await talk("export", f" {name} ") == f"The session is in {tmp_path}/{name}."
        text = (tmp_path / name).read_text()
        assert text.startswith(begins) and "hello there" in text
    with pytest.raises(ConfigError, match=r"a\.md exists already"):
        await talk("export", "a.md")
    with pytest.raises(ConfigError, match=r"the format of .* is unknown") as refused:
        await talk("export", "a.txt")
    assert ".md or .json" in str(refused.value.hint) and not (tmp_path / "a.txt").exists()
    with pytest.raises(Unsupported, match="codex stores its sessions itself"):
        await Conversation(tmp_path, "codex")("export")


def second_agent(tmp_path: Path, script: str) -> None:
    (tmp_path / "second.toml").write_text(script)
    command = f"{TREADLE} acp --model scripted:{tmp_path / 'second.toml'}"
    one = "[agents.{}]\nspeaks = 'acp'\ncommand = '{}'\n"
    settings(one.format("second", command) + one.format("broken", "false"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "denied", "keys", "seen"),
    [("full-auto", "Bash(rm *)", "\x1b[Z", "Run this"), ("suggest", "Bash(touch *)", "", "I may not.")],
    ids=["by the mode", "when it began"],
)
def test_what_was_forbidden_before_stays_so_with_another_agent(
    chat: Chat, work: Path, tmp_path: Path, mode: str, denied: str, keys: str, seen: str
) -> None:
    made = {"command": "touch made.txt"}
    second_agent(tmp_path, calls("bash", made, when="make it$") + says("I may not.", when=".*", times="always"))
    terminal = chat("--disallowedTools", denied)
    terminal.say("are you still there?")
    terminal.until("Yes, I am.")
    terminal.say("/exit")
    terminal.ended()
    terminal = chat("--permission-mode", mode, "-c")
    terminal.keys(keys)
    terminal.until("suggest")
    terminal.say("/agent second")
    terminal.until("second continues from here")
    terminal.say("make it")
    terminal.until(seen)
    assert not (work / "made.txt").exists()


def test_another_agent_goes_on_with_the_conversation(chat: Chat, tmp_path: Path) -> None:
    second_agent(tmp_path, says("I know of it.", when="task from native(.|\n)*still there"))
    terminal = chat()
    terminal.say("are you still there?")
    terminal.until("Yes, I am.")
    terminal.say("/agent broken")
    terminal.until("broken does not start, so native stays")
    terminal.say("/agent second")
    terminal.until("second continues from here")
    terminal.say("and you?")
    terminal.until("I know of it.")
    terminal.say("/agent second")
    terminal.until("you are already talking to second")
