"""Which kinds of subagent there are."""

import msgspec
import pytest

from treadle.agent.tasks import AGENT_TYPES, READING, as_main, child_spec, find_type, kinds
from treadle.agent.tools import BUILTIN
from treadle.errors import NotFound
from treadle.events import Task
from treadle.session import Limits, SessionSpec, Start, Subagent


def test_a_kind_is_found_by_its_name_in_any_case_and_without_one_it_is_the_general_one() -> None:
    assert find_type("explore").name == find_type("EXPLORE").name == "Explore"
    assert find_type(None).name == "general-purpose"


def test_one_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(NotFound, match="no agent type 'nobody'") as caught:
        find_type("nobody")
    assert caught.value.hint == "the types are general-purpose, Explore, Plan"


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


def test_limits_and_tools_of_a_definition_hold_where_nothing_else_was_asked_for() -> None:
    scout = Subagent(name="s", description="", prompt="scout", max_turns=3)
    asked = SessionSpec.of(cwd="/", tools=("grep",), limits=Limits(max_iterations=9))
    assert (as_main(asked, scout).tools.offered, as_main(asked, scout).limits.max_iterations) == (("grep",), 9)
    plain = as_main(SessionSpec(cwd="/"), scout)
    assert (plain.tools.offered, plain.limits.max_iterations) == (None, 3)


@pytest.mark.parametrize(("of_kind", "of_parent", "wanted"), [(3, 9, 3), (None, 9, 9), (None, None, None)])
def test_a_subagent_is_opened_in_the_place_of_its_task_with_its_own_prompt_and_the_mode_of_now(
    of_kind: int | None, of_parent: int | None, wanted: int | None
) -> None:
    parent = SessionSpec.of(
        cwd="/up", mode="plan", system_prompt="mine", limits=Limits(max_iterations=of_parent, max_tokens=7)
    )
    parent = msgspec.structs.replace(parent, start=Start(name="night", resume="old"))
    kind = Subagent(name="s", description="", prompt="scout", max_turns=of_kind)
    made = child_spec(
        parent, kind, Task(id="t", kind="agent", label="l", status="running", cwd="/down"), ("grep",), "yolo"
    )
    assert (made.cwd, made.mode, made.tools.offered, made.tools.denied) == ("/down", "yolo", ("grep",), ())
    assert (made.instructions.system, made.instructions.append) == ("mine", "scout")
    assert (made.limits.max_iterations, made.limits.max_tokens) == (wanted, 7)
    assert made.start == Start(persist=False, name="night")
