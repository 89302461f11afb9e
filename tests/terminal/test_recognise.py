"""Which agent a terminal shows: by its command, by what it reports or shows, and not any more in the shell after it."""

from treadle.terminal.state import KnownAgent


def test_by_its_command_and_then_for_good() -> None:
    agent = KnownAgent(["claude", "--resume"])
    assert (agent.name, agent.by, agent.box_seen, agent.settled) == ("claude", "command", False, False)
    agent.recognise("codex", "", [])
    agent.forget()
    assert (agent.name, agent.by) == ("claude", "command")


def test_by_its_reports_in_a_shell_until_it_has_returned_there() -> None:
    agent = KnownAgent(["bash"])
    assert (agent.name, agent.by) == (None, "")
    agent.recognise("", "", ["$ ls", "a.txt"])
    assert agent.name is None
    agent.recognise("claude-code", "", [])
    agent.box_seen = agent.settled = True
    assert (agent.name, agent.by) == ("claude", "sight")
    agent.forget()
    assert (agent.name, agent.by, agent.box_seen, agent.settled) == (None, "", False, False)


def test_by_its_title_or_by_what_its_screen_says() -> None:
    for title, lines in (("✳ Claude Code", []), ("bash", ["  Claude Code v2.1.0"])):
        agent = KnownAgent(["bash"])
        agent.recognise("", title, lines)
        assert (agent.name, agent.by) == ("claude", "sight")
