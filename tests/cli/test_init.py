"""`treadle init`: a repository is prepared, with everything shown first and nothing written unasked."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.chat.terminal import ChatTerminal
from tests.installed import TREADLE, treadle
from treadle.cli.project import init
from treadle.settings import config, trust
from treadle.verification.finding import check_command


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work, programs = tmp_path / "shop", tmp_path / "bin"
    work.mkdir()
    programs.mkdir()
    subprocess.run(["git", "init", "-q", work], check=True)
    (programs / "claude").write_text("#!/bin/sh\n")
    (programs / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (work / "Makefile").write_text("test:\n\ttrue\n")
    return work


def test_yes_writes_all_that_is_proposed_and_trusts_it(work: Path) -> None:
    done = treadle("init", "--yes", cwd=work)
    assert done.returncode == 0, done.stderr
    assert "`make test`" in (work / "AGENTS.md").read_text()
    assert config.load(str(work)).settings.permissions.allow == ("Bash(make test)",)
    assert trust.is_trusted(str(work)) and (work / ".mcp.json").exists()
    again = treadle("init", "--yes", "--json", cwd=work)
    assert json.loads(again.stdout) == []


def test_in_a_pipe_nothing_is_written_unasked(work: Path) -> None:
    done = treadle("init", cwd=work)
    assert done.returncode == 0 and "AGENTS.md: what every agent reads" in done.stdout
    assert "Nothing was written." in done.stdout and "treadle init --yes" in done.stdout
    assert sorted(os.listdir(work)) == [".git", "Makefile"]


def test_settings_that_came_with_the_repository_do_not_become_trusted_on_the_way(work: Path) -> None:
    (work / ".mcp.json").write_text('{"mcpServers": {"theirs": {"command": "evil"}}}')
    done = treadle("init", "--yes", cwd=work)
    assert "treadle trust" in done.stdout and not trust.is_trusted(str(work))


def test_a_person_answers_for_each_file(work: Path) -> None:
    (work / "bin").mkdir()
    env = {**os.environ, "TERM": "xterm-256color"}
    with ChatTerminal([TREADLE, "init"], work, env) as terminal:
        terminal.until(r"Write it\? \[Y/n\]")
        terminal.say("y")
        terminal.until(r"config\.toml: settings of this project[^?]*\?")
        terminal.say("n")
        terminal.until(r"Do it\?")
        terminal.say("n")
        assert terminal.ended() == 0
    assert (work / "AGENTS.md").exists() and not (work / ".treadle").exists() and not (work / ".mcp.json").exists()


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("Makefile", "all:\ncheck: x\n", "make check"),
        ("Makefile", "test := 1\n", ""),
        ("package.json", '{"scripts": {"test": "jest"}}', "npm test"),
        ("package.json", '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}', ""),
        ("package.json", "[]", ""),
        ("Cargo.toml", "", "cargo test"),
        ("go.mod", "", "go test ./..."),
        ("pyproject.toml", "[tool.pytest.ini_options]", "python3 -m pytest"),
        ("test_shop.py", "", "python3 -m unittest"),
        ("shop_test.py", "", ""),
        ("makefile", "test:\n", "make test"),
        ("Makefile", "check:\ntest:\n", "make test"),
        ("package.json", "{", ""),
        ("package.json", '{"scripts": []}', ""),
        ("package.json", '{"scripts": {"test": true}}', ""),
        pytest.param("package.json", "[" * 100_000, "", id="deep"),
        ("tox.ini", "[pytest]", "python3 -m pytest"),
        ("setup.cfg", "[tool:pytest]", "python3 -m pytest"),
        ("pytest.ini", "pytest", "python3 -m pytest"),
        ("tests/test_a.py", "", "python3 -m unittest"),
        ("test/test_a.py", "", "python3 -m unittest"),
        ("src/test_a.py", "", ""),
        ("tests/test_a.py", "def test_a(): pass\n", "python3 -m pytest"),
    ],
)
def test_the_check_is_found_by_the_build_files(name: str, text: str, command: str) -> None:
    assert check_command([name], {name: text}.get) == command


def run(work: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
    monkeypatch.chdir(work)
    return CliRunner().invoke(init, words, catch_exceptions=False)


def test_only_what_is_new_is_proposed_and_programs_see_what_was_done(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposed = json.loads(run(work, monkeypatch, "--json").stdout)
    assert [(each["what"], each["done"]) for each in proposed] == [
        ("AGENTS.md", False),
        (".treadle/config.toml", False),
        ("treadle coord setup claude", False),
    ]
    assert proposed[1]["text"].startswith('[verify]\ncheck = "make test"') and proposed[2]["text"] == ""
    assert not (work / "AGENTS.md").exists() and not trust.is_trusted(str(work))
    (work / "AGENTS.md").write_text("mine")
    done = json.loads(run(work, monkeypatch, "--json", "--yes").stdout)
    assert [each["what"] for each in done] == [each["what"] for each in proposed[1:]] and all(
        each["done"] for each in done
    )
    assert (work / "AGENTS.md").read_text().startswith("mine\n") and trust.is_trusted(str(work))
    again = run(work, monkeypatch)
    assert again.output == "Nothing to do: AGENTS.md and .treadle/config.toml are here already.\n"


def test_an_agent_whose_files_cannot_be_read_is_left_to_its_own_command(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / ".mcp.json").write_text("{")
    proposed = json.loads(run(work, monkeypatch, "--json").stdout)
    assert [each["what"] for each in proposed] == ["AGENTS.md", ".treadle/config.toml"]
