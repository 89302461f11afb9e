"""What Tab offers."""

import subprocess
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from treadle.cli.chat.screen import ChatCompleter
from treadle.session import CommandInfo

COMMANDS = [CommandInfo(name="model", description="Change it.", arguments="[NAME]"), CommandInfo(name="mode")]


def offered(cwd: Path, text: str) -> list[str]:
    completer = ChatCompleter(str(cwd), lambda: COMMANDS)
    return [one.text for one in completer.get_completions(Document(text), CompleteEvent())]


def test_commands_at_the_start_of_the_line_only(tmp_path: Path) -> None:
    assert offered(tmp_path, "/mod") == ["mode", "model"] and offered(tmp_path, "/model") == ["model"]
    assert offered(tmp_path, "say /mod") == [] and offered(tmp_path, "/model x") == []


def test_files_after_an_at_without_what_git_ignores(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("build/\n")
    for name in ("src/parser.py", "src/deep/parser_test.py", "build/parser.o"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert offered(tmp_path, "look at @parser") == ["src/parser.py", "src/deep/parser_test.py"]
    assert offered(tmp_path, "me@parser") == []


def test_files_that_came_later_are_found_by_the_next_at(tmp_path: Path) -> None:
    completer = ChatCompleter(str(tmp_path))

    def find(text: str) -> list[str]:
        return [one.text for one in completer.get_completions(Document(text), CompleteEvent())]

    assert find("@") == []
    (tmp_path / "new.txt").write_text("")
    assert find("@new") == [], "a look at every key would be slow in a large repository"
    assert find("@") == ["new.txt"] and find("@new") == ["new.txt"]


def test_a_command_is_offered_with_what_it_takes_and_does(tmp_path: Path) -> None:
    completer = ChatCompleter(str(tmp_path), lambda: COMMANDS)
    mode, model = completer.get_completions(Document("/mo"), CompleteEvent())
    assert (model.text, model.start_position, model.display_text) == ("model", -2, "/model")
    assert model.display_meta_text == "[NAME] Change it." and mode.display_meta_text == ""
    assert offered(tmp_path, "/mo\n") == [] and offered(tmp_path, "/x") == []
    (tmp_path / "file").write_text("")
    (found,) = completer.get_completions(Document("see @fi"), CompleteEvent())
    assert (found.text, found.start_position) == ("file", -2)
