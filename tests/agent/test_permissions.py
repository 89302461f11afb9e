"""What a session may do: rules, mode, what a person allowed, and asking."""

from pathlib import Path
from typing import Any

import pytest

from treadle.agent.configuration import Configuration
from treadle.agent.confining import Confining
from treadle.agent.permissions import Permissions
from treadle.agent.tools import registry
from treadle.agent.tools.base import AnyTool
from treadle.agent.tools.paths import Resolved
from treadle.events import Asked, Event, Warned
from treadle.session import Access, Answer, Confinement, Rules, SessionSpec

TOOLS = registry.builtin(("write_file", "bash"), ())


class Person:
    """Answers every question in the same way, and remembers what was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.events: list[Event] = []

    async def ask(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        return self.answer


async def permissions(tmp_path: Path, person: Person | None, parent: Permissions | None = None) -> Permissions:
    spec = SessionSpec.of(
        cwd=str(tmp_path),
        mode="suggest",
        rules=Rules(deny=("write_file(secret.txt)", "WebFetch(domain:evil.example.com)")),
    )
    return Permissions(
        await Configuration.load(spec, {}),
        ask=person.ask if person is not None else None,
        deadline=lambda: 0.0,
        emit=person.events.append if person is not None else print,
        confining=Confining(str(tmp_path), (), Confinement(), session="s"),
        readable=lambda: [],
        parent=parent,
    )


def write(tmp_path: Path, name: str) -> tuple[AnyTool, Any, Access, Resolved]:
    tool = TOOLS.get("write_file")
    args = registry.decode(tool, f'{{"file_path": "{name}", "content": "x"}}')
    resolve = Resolved(tmp_path)
    return tool, args, tool.access(args, resolve), resolve


async def test_nobody_to_ask_is_a_denial_that_says_so(tmp_path: Path) -> None:
    here = await permissions(tmp_path, None)
    decision, _ = await here.permit("c1", *write(tmp_path, "a.txt"))
    assert (decision.verdict, decision.by) == ("deny", "nobody")


async def test_what_is_allowed_once_is_asked_again(tmp_path: Path) -> None:
    person = Person(Answer(decision="allow", by="ann"))
    here = await permissions(tmp_path, person)
    for _ in range(2):
        decision, _ = await here.permit("c1", *write(tmp_path, "a.txt"))
        assert (decision.verdict, decision.reason) == ("allow", "allowed by ann")
    assert len(person.asked) == 2 and person.asked[0].name == "write_file"


async def test_what_is_allowed_for_the_session_also_holds_for_the_parent(tmp_path: Path) -> None:
    person = Person(Answer(decision="allow", scope="session"))
    parent = await permissions(tmp_path, person)
    child = await permissions(tmp_path, person, parent)
    await child.permit("c1", *write(tmp_path, "a.txt"))
    for here in (child, parent, await permissions(tmp_path, None, parent)):
        decision, _ = await here.permit("c2", *write(tmp_path, "a.txt"))
        assert decision.verdict == "allow"
    assert len(person.asked) == 1


async def test_what_was_allowed_outlasts_a_change_of_mode(tmp_path: Path) -> None:
    person = Person(Answer(decision="allow", scope="session"))
    here = await permissions(tmp_path, person)
    await here.permit("c1", *write(tmp_path, "a.txt"))
    here.set_mode("plan")
    assert here.mode == "plan" and here.remembered


@pytest.mark.parametrize(("by", "judge"), [("deadline", "deadline"), ("ann", "person")])
async def test_a_denial_says_who_denied(tmp_path: Path, by: str, judge: str) -> None:
    here = await permissions(tmp_path, Person(Answer(decision="deny", text="not now", by=by)))
    decision, _ = await here.permit("c1", *write(tmp_path, "a.txt"))
    assert (decision.verdict, decision.reason, decision.by) == ("deny", "not now", judge)


async def test_changed_arguments_are_judged_again(tmp_path: Path) -> None:
    person = Person(Answer(decision="allow", changed_args={"file_path": "secret.txt", "content": "x"}))
    decision, _ = await (await permissions(tmp_path, person)).permit("c1", *write(tmp_path, "a.txt"))
    assert decision.verdict == "deny"
    person.answer = Answer(decision="allow", changed_args={"file_path": "b.txt", "content": "y"})
    decision, args = await (await permissions(tmp_path, person)).permit("c1", *write(tmp_path, "a.txt"))
    assert decision.verdict == "allow" and args.content == "y"


async def test_always_becomes_a_rule_in_the_persons_own_settings(tmp_path: Path) -> None:
    person = Person(Answer(decision="allow", scope="always"))
    await (await permissions(tmp_path, person)).permit("c1", *write(tmp_path, "a.txt"))
    [told] = person.events
    assert isinstance(told, Warned) and told.code == "rule_kept"
    assert "write_file" in Path(told.message.rpartition("saved in ")[2]).read_text()


async def test_an_address_is_refused_with_a_reason(tmp_path: Path) -> None:
    here = await permissions(tmp_path, None)
    assert here.refused("http://example.com/") == ""
    assert "evil.example.com" in here.refused("http://evil.example.com/")
