"""`treadle completion`."""

import pytest
from click.testing import CliRunner

from treadle.agent.transcript import Transcript, TurnBegan
from treadle.cli.help import LISTS, completion, rows


def test_without_a_shell_it_says_which_there_are() -> None:
    result = CliRunner().invoke(completion)
    assert result.exit_code == 2 and "bash, zsh, fish" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed(shell: str) -> None:
    assert "heimdall-claim" in CliRunner().invoke(completion, [shell]).output


def test_a_list_that_cannot_be_made_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_HOME", "/dev/null/x")
    result = CliRunner().invoke(completion, ["--list", "sessions"])
    assert result.exit_code == 0 and result.output == ""


def test_each_list_is_words_with_what_they_are() -> None:
    for kind in LISTS:
        assert all(line.count("\t") == 1 for line in rows(kind).splitlines())
    assert "native\tagent\n" in rows("agents") and "plan\t\n" in rows("modes") and rows("terminals") == ""


def test_what_was_said_cannot_break_a_line_or_act_on_the_terminal() -> None:
    transcript = Transcript.create(cwd="/x", model="m", session_id="abc")
    transcript.append(TurnBegan(turn="t", prompt="one\ntwo\tthree\x1b[2J"))
    transcript.close()
    Transcript.create(cwd="/x", model="m", session_id="empty").close()
    assert rows("sessions") == "abc\tone two three\N{REPLACEMENT CHARACTER}[2J\n"


def test_only_so_many_sessions_are_offered_and_a_name_before_its_prompt() -> None:
    for number in range(101):
        transcript = Transcript.create(
            cwd="/x", model="m", session_id=f"s{number:03}", name="mine" if number == 100 else None
        )
        transcript.append(TurnBegan(turn="t", prompt="p" * 70))
        transcript.close()
    lines = rows("sessions").splitlines()
    assert len(lines) == 100 and "s100\tmine" in lines and f"s099\t{'p' * 60}" in lines


def test_a_list_is_printed_for_the_scripts_and_they_alone_ask_for_it() -> None:
    listed = CliRunner().invoke(completion, ["--list", "shells"])
    assert listed.output == "bash\t\nzsh\t\nfish\t\n" and rows("orders") == ""
    assert "acp:\tagent\n" in rows("agents") and "a2a:\tagent\n" in rows("agents")
    assert "one-shot\tOne-shot runs" in rows("pages")
    assert CliRunner().invoke(completion, ["--list", "nothing"]).exit_code == 2
    script = CliRunner().invoke(completion, ["fish"]).output
    assert script.startswith("# Completion of treadle for fish") and not script.endswith("\n\n")
