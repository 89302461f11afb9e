"""What a session is given, in the words of Claude Code."""

from treadle.drivers.claude.gate import model, response_text, server, subagent
from treadle.session import Subagent


def test_a_subagent_has_claude_codes_names_for_tools() -> None:
    given = Subagent(name="a", description="d", prompt="p", tools=("bash", "read_file"), denied=("grep",), max_turns=3)
    assert subagent(given) == {
        "description": "d",
        "prompt": "p",
        "tools": ["Bash", "Read"],
        "disallowedTools": ["Grep"],
        "maxTurns": 3,
    }
    assert subagent(Subagent(name="a", description="d", prompt="p", model="m"))["model"] == "m"


def test_a_server_says_how_it_is_reached() -> None:
    assert server({"command": "x", "disabled": False}) == {"command": "x", "type": "stdio"}
    assert server({"url": "u"}) == {"url": "u", "type": "http"}


def test_what_a_tool_gave_is_text_for_a_hook_whatever_its_form() -> None:
    assert response_text("plain") == "plain" and response_text(None) == ""
    assert response_text({"stdout": "out", "stderr": "err", "interrupted": False}) == "out\nerr"
    assert response_text({"stdout": "out", "stderr": ""}) == "out"
    assert response_text([{"type": "text"}]) == '[{"type":"text"}]'


def test_a_model_is_listed_by_its_short_name() -> None:
    shown = model({"value": "opus", "displayName": "Opus", "description": "large"})
    assert (shown.id, shown.name, shown.description) == ("opus", "Opus", "large")
    assert (model({"value": "opus"}).name, model({}).id, model({}).name) == ("opus", "", "")


def test_what_is_not_given_is_not_said() -> None:
    assert subagent(Subagent(name="a", description="d", prompt="p")) == {"description": "d", "prompt": "p"}
    assert subagent(Subagent(name="a", description="d", prompt="p", tools=()))["tools"] == []
    assert response_text({"stdout": 7}) == '{"stdout":7}' and response_text({"stdout": "", "stderr": "e"}) == "e"
    assert response_text({"stdout": "o", "stderr": 7}) == "o" and response_text("") == "" and response_text(0) == "0"
