"""Options whose value is a file or JSON of its own."""

import json
from pathlib import Path

import pytest

from treadle.cli.options import claude_settings, joined, servers, sources, subagents, text_or_file, tokens
from treadle.errors import ConfigError, StorageError


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--allowedTools Read Bash(ls) mcp__x__y fix it", "--allowedTools Read,Bash(ls),mcp__x__y fix it"),
        ("--allowedTools Read -p fix", "--allowedTools Read -p fix"),
        ("--disallowed-tools Read, Edit,Write done", "--disallowed-tools Read,,Edit,Write done"),
        ("--allowedTools", "--allowedTools"),
        ("--allowed-tools fix Read it", "--allowed-tools fix,Read it"),
        ("--disallowedTools A --denied-tools B bash", "--disallowedTools A --denied-tools B,bash"),
        ("--model Read Edit", "--model Read Edit"),
        ("--allowedTools Read Edit,fix Grep", "--allowedTools Read Edit,fix Grep"),
        ("--allowedTools Read , Edit", "--allowedTools Read,,,Edit"),
        ("-p x -- --allowedTools Read Edit", "-p x -- --allowedTools Read Edit"),
    ],
)
def test_further_words_belong_to_an_option_only_when_they_name_tools(words: str, expected: str) -> None:
    assert joined(words.split()) == expected.split()


def test_subagents_are_read_from_json_or_from_a_file(tmp_path: Path) -> None:
    text = json.dumps({"tester": {"description": "tests", "prompt": "Test it.", "tools": ["Read"]}})
    (tmp_path / "agents.json").write_text(text)
    [found] = subagents(text)
    assert (found.name, found.prompt) == ("tester", "Test it.")
    assert subagents(str(tmp_path / "agents.json")) == (found,)
    with pytest.raises(StorageError):
        subagents(str(tmp_path / "none.json"))


def test_servers_of_several_files_are_put_together_and_the_last_counts(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"mcpServers": {"one": {"command": "x"}, "two": {"command": "y"}}}')
    assert servers((str(tmp_path / "a.json"), '{"two": {"url": "z"}}')) == {
        "one": {"command": "x"},
        "two": {"url": "z"},
    }
    for wrong in ('{"mcpServers": []}', '{"one": 1}'):
        with pytest.raises(ConfigError, match="no table of servers"):
            servers((wrong,))


def test_settings_of_claude_code_give_what_means_the_same_here() -> None:
    found = claude_settings(
        json.dumps(
            {
                "permissions": {"deny": ["Read(.env)"], "defaultMode": "plan", "additionalDirectories": ["/x"]},
                "env": {"N": 1},
                "statusLine": {},
                "apiKeyHelper": "x",
            }
        )
    )
    assert found.rules.deny == ("Read(.env)",) and found.mode == "plan" and found.add_dirs == ("/x",)
    assert found.env == {"N": "1"} and found.unused == ("apiKeyHelper",), "what only changes looks is not missed"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sandbox": {"x": 1}}, "--settings has a sandbox"),
        ({"hooks": {"Newer": []}}, "'Newer' are not run here"),
        ({"hooks": []}, None),
        ({"hooks": [1]}, "must be an object"),
        ({"hooks": {"Stop": {}}}, "must be a list"),
        ({"hooks": {"Stop": [{"hooks": [{"type": "agent", "prompt": "x"}]}]}}, "is of the type"),
        ({"hooks": {"Newer": []}, "disableAllHooks": True}, None),
    ],
)
def test_what_could_forbid_something_and_cannot_be_kept_is_refused(settings: object, said: str | None) -> None:
    if said is None:
        assert claude_settings(json.dumps(settings)).hooks == ()
        return
    with pytest.raises(ConfigError, match=said):
        claude_settings(json.dumps(settings))


@pytest.mark.parametrize(("text", "said"), [("{", "not valid JSON"), ("{}x", "not valid JSON")])
def test_what_is_not_json_is_told_with_the_option(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"--agents is {said}"):
        subagents(text)


def test_a_file_that_holds_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"--settings .*list\.json is not a JSON object"):
        claude_settings(str(tmp_path / "list.json"))


@pytest.mark.parametrize(
    ("text", "number"), [("200000", 200_000), (" 200K ", 200_000), ("1M", 1_000_000), ("3m", 3_000_000), ("1", 1)]
)
def test_a_number_of_tokens_may_be_short(text: str, number: int) -> None:
    assert tokens(text, "--x") == number


@pytest.mark.parametrize("text", ["", "k", "0", "0k", "1.5k", "-1", "\u0663", "1g"])
def test_what_is_no_number_of_tokens_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no number of tokens") as refused:
        tokens(text, "--x")
    assert "such as 200000, 200k or 1M" in str(refused.value) and str(refused.value).startswith("--x ")


def test_a_prompt_is_given_as_text_or_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"from a file\xff")
    assert text_or_file(None, None) is None and text_or_file("", None) == ""
    assert text_or_file("typed", None) == "typed" and text_or_file(None, str(tmp_path / "p")) == "from a file\ufffd"
    with pytest.raises(ConfigError, match="a system prompt and a file of one were given"):
        text_or_file("", str(tmp_path / "p"))


def test_the_sources_of_settings_are_named_with_commas_between() -> None:
    assert sources(None) is None and sources("") == () and sources(" user, ,local ") == ("user", "local")
    with pytest.raises(ConfigError, match="there is no setting source 'mine'"):
        sources("user,yours,mine")


def test_a_file_may_be_named_from_home_and_spaces_before_json_do_not_matter(state_home: Path) -> None:
    (state_home / "a.json").write_text('{"one": {"command": "x"}}')
    assert servers(("~/a.json", ' \n{"two": {"command": "y"}}')) == {"one": {"command": "x"}, "two": {"command": "y"}}
    assert servers(()) == {} and claude_settings("{}").hooks == ()
