"""The command tree: what a command line means, and how it fails."""

import json
import os
import re
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.imports import loaded_by
from tests.installed import TREADLE, started
from tests.installed import treadle as run
from treadle import __version__
from treadle.cli import root
from treadle.cli.help import every
from treadle.errors import ConfigError


def test_help_is_a_word_too_and_programs_get_the_version() -> None:
    told = json.loads(run("version", "--json").stdout)
    assert told["version"] == __version__ and told["executable"] == sys.executable and "fleet" in told["parts"]
    assert run("help", "doctor").stdout == run("doctor", "--help").stdout
    assert run("help").stdout == run("--help").stdout


def test_the_list_of_commands_says_of_each_what_it_says_of_itself() -> None:
    told = {name: root.load(place).get_short_help_str(200) for name, place in root.COMMANDS.items()}
    assert told == {name: line for group in root.GROUPS.values() for name, (_, line) in group.items()}


def test_the_help_is_shown_without_the_commands() -> None:
    said, loaded = loaded_by("--help")
    assert "Chat with an agent" in said and "click" in loaded
    assert not {"rich", "asyncio", "treadle.host", "treadle.agent", "treadle.cli.chat"} & loaded


NEED_A_PLACE = ["trust", "host backends", "sessions --here", "ls", "-p x --model scripted:x", "coord claim list"]


@pytest.fixture
def gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()


@pytest.mark.parametrize("words", NEED_A_PLACE)
def test_a_working_directory_that_is_gone_is_an_error_of_few_words(words: str, gone: None) -> None:
    done = run(*words.split())
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr and 1 <= len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize("settings", [{}, {"TREADLE_MODEL": "m"}], ids=["no settings", "settings"])
@pytest.mark.parametrize("program", ["treadle-worker", "treadle-sidecar"])
def test_a_served_agent_says_so_too(
    program: str, settings: dict[str, str], gone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    done = run(program=str(Path(TREADLE).with_name(program)))
    assert done.returncode == 2 and done.stderr.startswith(f"{program}: the working directory is gone")


def test_ctrl_c_ends_a_command_with_the_code_that_shells_know() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = {**os.environ, "TREADLE_BASE_URL": f"http://127.0.0.1:{silent.getsockname()[1]}/v1"}
        with started("models", "chat", env=env) as process:
            asked, _ = silent.accept()
            with asked:
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in said


def test_an_error_is_one_line_and_a_result_where_json_was_asked_for(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for words, records in ((["-p", "--nonsense"], 0), (["-p", "--nonsense", "--output-format=json"], 1)):
        with pytest.raises(SystemExit) as ended:
            root.main(words)
        out, err = capsysbinary.readouterr()
        assert ended.value.code == 1 and err.startswith(b"treadle: ") and err.count(b"\n") == 1
        assert len(out.splitlines()) == records


def test_every_command_that_the_upgrade_page_calls_gone_or_renamed_says_so_itself() -> None:
    page = Path(__file__).parents[2] / "docs/how-to/upgrade-from-0.2.md"
    table = page.read_text().partition("## Commands")[2].partition("## Behaviour")[0]
    rows = [row.split("|")[1] for row in table.strip().splitlines()[2:]]
    typed = [cell.split() for row in rows for cell in re.findall(r"(?<!with )`([a-z][^`:_]*)`", row)]
    here = {words[1:] for words in every()}
    groups = {words[0] for words in here if len(words) == 2}
    gone = [words for words in typed if words[0] in groups and tuple(words[:2]) not in here or (words[0],) not in here]
    gone = [words for words in gone if not words[0].startswith("heimdall")]
    assert len(gone) > 20
    for words in gone:
        with suppress(ConfigError):
            assert root.current(words) != words, words
