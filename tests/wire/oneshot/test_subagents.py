from typing import Any

import pytest

from treadle.errors import ConfigError
from treadle.wire.oneshot.arguments import subagent


def test_tools_are_known_by_the_names_of_claude_code_and_may_be_a_list_or_a_text() -> None:
    for tools in (["Read", " Bash "], "Read, Bash"):
        found = subagent("a", {"prompt": "p", "description": "d", "tools": tools, "disallowedTools": ["Edit"]})
        assert found.tools == ("read_file", "bash") and found.denied == ("edit_file",)
        assert (found.name, found.description, found.prompt) == ("a", "d", "p")


@pytest.mark.parametrize(("model", "expected"), [(None, None), ("inherit", None), ("opus", "opus")])
def test_the_model_is_that_of_the_session_unless_it_says_another(model: str | None, expected: str | None) -> None:
    assert subagent("a", {"prompt": "p", "model": model}).model == expected


def test_without_tools_it_has_all_and_turns_are_a_number_or_unbounded() -> None:
    found = subagent("a", {"prompt": "p", "tools": [], "maxTurns": 3})
    assert found.tools is None and found.max_turns == 3
    assert subagent("a", {"prompt": "p", "maxTurns": "3"}).max_turns is None
    assert subagent("a", {"prompt": "p", "maxTurns": True}).max_turns is None


@pytest.mark.parametrize("entry", [None, [], {}, {"prompt": 1}, {"description": "d"}])
def test_one_without_a_prompt_is_refused(entry: Any) -> None:
    with pytest.raises(ConfigError, match="the agent 'a' has no prompt"):
        subagent("a", entry)


def test_what_it_asks_for_and_cannot_have_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="asks for mcpServers, memory, which subagents do not have here"):
        subagent("a", {"prompt": "p", "mcpServers": {"x": {}}, "memory": "user"})
