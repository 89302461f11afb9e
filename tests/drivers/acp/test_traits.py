"""Known traits of agents, and an unknown agent is taken at its word."""

import pytest

from treadle.drivers.acp.options import TRAITS, UNKNOWN, traits_of


@pytest.mark.parametrize(
    ("name", "kind", "text", "refused"),
    [
        ("Copilot", "agent_message_chunk", "Info: Operation cancelled by user", True),
        ("Copilot", "agent_message_chunk", "The log has: Info: Operation cancelled", False),
        ("Copilot", "agent_thought_chunk", "Info: Operation cancelled by user", False),
        ("gemini-cli", "agent_message_chunk", "Info: Operation cancelled by user", False),
    ],
)
def test_only_an_answer_that_begins_so_ends_a_refused_turn(name: str, kind: str, text: str, refused: bool) -> None:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    assert traits_of(name).says_refused(update) is refused


def test_sessions_are_loaded_and_titles_run_only_where_that_was_seen_to_work() -> None:
    assert [name for name, traits in TRAITS.items() if not traits.loads] == ["gemini-cli"]
    assert [name for name, traits in TRAITS.items() if traits.title_is_command] == ["gemini-cli"]
    assert not UNKNOWN.title_is_command and all(traits.known for traits in TRAITS.values())
