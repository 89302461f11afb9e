"""The lines of `codex exec --json`, and how they become the app-server's."""

import pytest

from treadle.errors import InvalidJson, LineTooLong
from treadle.wire.codex.events import CodexOutput, as_item, as_usage


def test_each_line_is_a_record_or_an_error_in_its_place() -> None:
    output = CodexOutput(cap=40)
    found = output.receive(b'{"type":"turn.started"}\n\n[]\nnonsense\n' + b"x" * 50 + b'\n{"type":')
    assert found[0] == {"type": "turn.started"}
    assert [type(each) for each in found[1:]] == [InvalidJson, InvalidJson, LineTooLong]
    assert output.receive(b'"turn.completed"}') == [] and output.end() == [{"type": "turn.completed"}]


def test_output_that_ends_inside_a_line_has_failed() -> None:
    output = CodexOutput()
    assert output.end() == []
    output.receive(b'{"type":')
    with pytest.raises(InvalidJson):
        output.end()


def test_the_prompt_goes_in_as_it_is() -> None:
    assert CodexOutput().send("Grüße\n{}") == "Grüße\n{}".encode()


def test_an_item_has_the_names_of_the_app_server() -> None:
    told = {
        "type": "command_execution",
        "command": "ls",
        "aggregated_output": "a",
        "exit_code": 0,
        "status": "completed",
    }
    assert as_item(told) == {
        "type": "commandExecution",
        "command": "ls",
        "aggregatedOutput": "a",
        "exitCode": 0,
        "status": "completed",
    }
    assert as_item({"type": "reasoning", "text": "hm"}) == {"type": "reasoning", "text": "hm", "summary": ["hm"]}
    assert as_item({"type": "dream"}) == {"type": "dream"} and as_item({}) == {"type": None}


def test_what_was_not_told_of_the_use_stays_unknown() -> None:
    used = as_usage({"input_tokens": 5, "output_tokens": 2, "later": 1})
    assert used["inputTokens"] == 5 and used["outputTokens"] == 2 and used["reasoningOutputTokens"] is None
    assert "later" not in used


def test_a_last_line_may_be_blank_and_an_item_of_a_known_kind_has_its_name() -> None:
    output = CodexOutput()
    assert output.receive(b"  \n") == [] and output.receive(b"  ") == [] and output.end() == []
    names = {
        "file_change": "fileChange",
        "agent_message": "agentMessage",
        "mcp_tool_call": "mcpToolCall",
        "web_search": "webSearch",
    }
    assert {theirs: as_item({"type": theirs})["type"] for theirs in names} == names
    assert as_item({"type": "reasoning"})["summary"] == [""] and "summary" not in as_item(
        {"type": "error", "text": "x"}
    )
