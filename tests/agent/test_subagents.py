"""Which kinds of subagent there are."""

from treadle.agent.tasks import AGENT_TYPES, READING, as_main, find_type, kinds
from treadle.agent.tools import BUILTIN
from treadle.session import SessionSpec, Subagent


def test_a_kind_is_found_by_its_name_in_any_case_and_without_one_it_is_the_general_one() -> None:
    assert find_type("explore").name == find_type("EXPLORE").name == "Explore"
    assert find_type(None).name == "general-purpose"


def test_a_further_kind_takes_the_place_of_ours() -> None:
    mine = Subagent(name="explore", description="mine", prompt="look")
    known = kinds([mine])
    assert find_type("Explore", known) is mine and len(known) == len(AGENT_TYPES)
    assert find_type("Explore") is not mine


def test_the_kinds_that_change_nothing_have_only_tools_that_read() -> None:
    assert set(READING) <= set(BUILTIN) and not {"bash", "write_file", "edit_file", "multi_edit"} & set(READING)
    assert {kind.name for kind in AGENT_TYPES.values() if kind.tools == READING} == {"Explore", "Plan"}


def test_a_conversation_may_itself_have_a_definition_and_what_was_asked_for_beside_it_wins() -> None:
    scout = Subagent(name="s", description="", prompt="scout", tools=("grep", "bash"), denied=("task",), model="small")
    made = as_main(SessionSpec(cwd="/"), scout)
    assert (made.model, made.instructions.system, made.tools.offered) == ("small", "scout", ("grep", "bash"))
    assert made.tools.denied == ("task",)
    asked = SessionSpec.of(cwd="/", model="large", system_prompt="mine", tools=("grep", "read_file"))
    made = as_main(asked, scout)
    assert (made.model, made.instructions.system, made.tools.offered) == ("large", "mine", ("grep",))
