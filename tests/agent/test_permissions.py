"""What a session may do: rules, mode, what a person allowed, and asking."""

from pathlib import Path
from typing import Any

import pytest

from treadle.agent import toolbox
from treadle.agent.configuration import Configuration
from treadle.agent.permissions import Permissions
from treadle.agent.tools.base import AnyTool
from treadle.agent.tools.files import Resolved
from treadle.events import Asked, Event, Warned
from treadle.sandboxed.confining import Confining
from treadle.session import Access, Answer, Confinement, HookVerdict, Rules, SessionSpec

TOOLS = toolbox.builtin(("write_file", "bash"), ())


class Person:
    """Answers every question in the same way, and remembers what was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.events: list[Event] = []

    async def ask(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        return self.answer


async def permissions(
    tmp_path: Path,
    person: Person | None,
    parent: Permissions | None = None,
    *,
    asked: Confinement | None = None,
    ask: tuple[str, ...] = (),
    event: Any = None,
) -> Permissions:
    spec = SessionSpec.of(
        cwd=str(tmp_path),
        mode="suggest",
        rules=Rules(deny=("write_file(secret.txt)", "WebFetch(domain:evil.example.com)"), ask=ask),
    )
    return Permissions(
        await Configuration.load(spec, {}),
        ask=person.ask if person is not None else None,
        deadline=lambda: 0.0,
        emit=person.events.append if person is not None else print,
        confining=Confining(str(tmp_path), (), asked or Confinement(), session="s"),
        readable=lambda: [],
        parent=parent,
        event=event,
    )


def write(tmp_path: Path, name: str) -> tuple[AnyTool, Any, Access, Resolved]:
    tool = TOOLS.get("write_file")
    args = toolbox.decode(tool, f'{{"file_path": "{name}", "content": "x"}}')
    resolve = Resolved(tmp_path)
    return tool, args, tool.access(args, resolve), resolve


@pytest.mark.parametrize(("by", "judge"), [("deadline", "deadline"), ("ann", "person")])
async def test_a_denial_says_who_denied(tmp_path: Path, by: str, judge: str) -> None:
    here = await permissions(tmp_path, Person(Answer(decision="deny", text="not now", by=by)))
    decision, _ = await here.permit("c1", *write(tmp_path, "a.txt"))
    assert (decision.verdict, decision.reason, decision.by) == ("deny", "not now", judge)


async def test_an_address_is_refused_with_a_reason(tmp_path: Path) -> None:
    here = await permissions(tmp_path, None)
    assert here.refused("http://example.com/") == ""
    assert "evil.example.com" in here.refused("http://evil.example.com/")


@pytest.mark.parametrize(
    ("said", "verdict", "reason", "by", "asked"),
    [
        (HookVerdict(decision="deny"), "deny", "a hook denied it", "hook", 0),
        (HookVerdict(decision="deny", reason="no"), "deny", "no", "hook", 0),
        (HookVerdict(decision="allow"), "allow", "allowed by a hook", "hook", 0),
        (HookVerdict(decision="allow", reason="fine"), "allow", "fine", "hook", 0),
        (HookVerdict(decision="ask"), "allow", "allowed by person", "person", 1),
    ],
)
async def test_a_hook_skips_the_question_or_denies(
    tmp_path: Path, said: HookVerdict, verdict: str, reason: str, by: str, asked: int
) -> None:
    person = Person(Answer(decision="allow"))
    decision, _ = await (await permissions(tmp_path, person)).permit("c", *write(tmp_path, "a"), verdict=said)
    assert (decision.verdict, decision.reason, decision.by, len(person.asked)) == (verdict, reason, by, asked)


async def test_a_hook_allows_nothing_forbidden_and_demands_a_question_about_what_is_allowed(tmp_path: Path) -> None:
    person = Person(Answer(decision="allow"))
    here = await permissions(tmp_path, person)
    decision, _ = await here.permit("c", *write(tmp_path, "secret.txt"), verdict=HookVerdict(decision="allow"))
    assert (decision.verdict, decision.by) == ("deny", "rule")
    here.set_mode("auto-edit")
    decision, _ = await here.permit("c", *write(tmp_path, "a"))
    assert decision.verdict == "allow" and not person.asked
    for reason, text in (("", "a hook wants a person to be asked"), ("look first", "look first")):
        await here.permit("c", *write(tmp_path, "a"), verdict=HookVerdict(decision="ask", reason=reason))
        assert person.asked[-1].text == text


@pytest.mark.parametrize(
    ("hook", "verdict", "by", "content"),
    [
        (HookVerdict(decision="deny"), "deny", "hook", "x"),
        (HookVerdict(decision="allow"), "allow", "hook", "x"),
        (HookVerdict(decision="allow", args={"file_path": "b", "content": "y"}), "allow", "hook", "y"),
        (HookVerdict(decision="allow", args={"file_path": "secret.txt", "content": "y"}), "deny", "rule", "y"),
        (HookVerdict(), "allow", "person", "x"),
    ],
)
async def test_hooks_are_asked_before_a_person_who_is_then_notified(
    tmp_path: Path, hook: HookVerdict, verdict: str, by: str, content: str
) -> None:
    told: list[tuple[str, dict[str, Any]]] = []

    async def event(name: str, payload: dict[str, Any]) -> HookVerdict:
        told.append((name, payload))
        return hook if name == "PermissionRequest" else HookVerdict()

    person = Person(Answer(decision="allow"))
    here = await permissions(tmp_path, person, event=event)
    decision, args = await here.permit("c1", *write(tmp_path, "a"))
    assert (decision.verdict, decision.by, args.content) == (verdict, by, content)
    name, payload = told[0]
    assert name == "PermissionRequest" and (payload["tool_name"], payload["kind"]) == ("write_file", "write")
    assert payload["tool_input"] == {"file_path": "a", "content": "x"} and payload["use"].call == "c1"
    notes = [payload["message"] for name, payload in told[1:] if name == "Notification"]
    assert notes == (["permission is needed to use write_file"] if by == "person" else [])
    assert len(person.asked) == (by == "person")


async def test_a_host_is_asked_about_only_where_commands_are_limited_to_a_list(tmp_path: Path) -> None:
    person = Person(Answer(decision="allow"))
    assert (await permissions(tmp_path, person)).reaching("c") is None
    asked = Confinement(use="on", network="off", hosts=("a.example",))
    assert (await permissions(tmp_path, None, asked=asked)).reaching("c") is None
    here = await permissions(tmp_path, person, asked=asked)
    reach = here.reaching("c7")
    assert reach is not None and not await reach("*.example", 443) and not person.asked
    assert await reach("b.example", 443) and await reach("b.example", 443) and len(person.asked) == 2
    assert (person.asked[0].call, person.asked[0].args, person.asked[0].deadline) == (
        "c7",
        {"host": "b.example", "port": 443},
        0.0,
    )
    person.answer = Answer(decision="allow", changed_args={})
    assert not await reach("c.example", 443)
    person.answer = Answer(decision="deny", scope="session")
    assert not await reach("c.example", 443)
    person.answer = Answer(decision="allow", scope="session")
    assert await reach("c.example", 8080) and len(person.asked) == 5
    person.answer = Answer(decision="deny")
    assert await reach("c.example", 8080) and not await reach("c.example", 443)
    [told] = person.events
    assert isinstance(told, Warned) and told.message.startswith("c.example:8080 can be reached for the rest")
    child = await permissions(tmp_path, person, here, asked=asked)
    again = child.reaching("c8")
    assert again is not None and await again("c.example", 8080), "what a person granted holds for subagents"


async def test_an_address_that_a_person_allows_for_good_is_granted_to_commands_too(tmp_path: Path) -> None:
    person = Person(Answer(decision="allow", scope="session"))
    asked = Confinement(use="on", network="off", hosts=("a.example",))
    here = await permissions(tmp_path, person, asked=asked)
    fetch = toolbox.builtin(("web_fetch",), ()).get("web_fetch")
    args = toolbox.decode(fetch, '{"url": "https://b.example/x"}')
    access = fetch.access(args, Resolved(tmp_path))
    assert "b.example" in here.refused("https://b.example/x")
    decision, _ = await here.permit("c", fetch, args, access, Resolved(tmp_path))
    assert decision.verdict == "allow" and here.refused("https://b.example/x") == ""
    assert any(isinstance(event, Warned) and "b.example can be reached" in event.message for event in person.events)
