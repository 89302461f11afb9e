"""Which kinds of subagent there are."""

from treadle.agent.tasks import AGENT_TYPES, READING
from treadle.agent.tools import BUILTIN


def test_the_kinds_that_change_nothing_have_only_tools_that_read() -> None:
    assert set(READING) <= set(BUILTIN) and not {"bash", "write_file", "edit_file"} & set(READING)
    assert {kind.name for kind in AGENT_TYPES.values() if kind.tools == READING} == {"Explore", "Plan"}
