"""A session's questions as messages of a task that needs input, and the replies as our answers.

A reply that is no answer is refused, and the question stays open: nothing is guessed.
"""

from typing import Any, Literal, cast

from treadle.events import Asked
from treadle.session import Answer
from treadle.wire.a2a.records import A2aMessage, A2aPart
from treadle.wire.a2a.versions import Malformed
from treadle.wire.common.jsontext import dumps

SCOPES: tuple[Literal["once", "session", "always"], ...] = ("once", "session", "always")
_YES = ("allow", "yes", "approve", "once")
_NO = ("deny", "no", "reject")
_SHOWN = 2000


def parts_of(asked: Asked) -> tuple[A2aPart, ...]:
    """In words for a person, and as data for a program."""
    words = [asked.text]
    if asked.kind == "permission":
        words += [_about(asked), "Reply with allow, session, always, or deny and a reason."]
    elif asked.kind == "plan":
        words.append("Reply with approve, or deny and what to change.")
    elif asked.options:
        words += [f"{number}. {option}" for number, option in enumerate(asked.options, 1)]
    data: dict[str, Any] = {"question": asked.kind, "request": asked.request}
    if asked.options:
        data["options"] = list(asked.options)
    if asked.name:
        data |= {"tool": asked.name, "args": asked.args, "paths": list(asked.paths)}
    return (A2aPart(text="\n".join(filter(None, words))), A2aPart(data=data))


def answer_of(asked: Asked, message: A2aMessage) -> Answer:
    """What was replied; Malformed when it cannot be understood."""
    given = next((part.data for part in message.parts if isinstance(part.data, dict) and "decision" in part.data), None)
    if given is not None:
        return _by_data(asked, given)
    text = message.text.strip()
    if asked.kind == "question":
        return Answer(decision="allow", text=_chosen(asked, text))
    word, _, rest = text.partition(" ")
    word = word.strip(".,:;!").lower()
    if word in _NO:
        return Answer(decision="deny", text=rest.strip())
    if word in _YES and not rest.strip():
        return Answer(decision="allow")
    if asked.kind == "permission" and word in SCOPES and not rest.strip():
        return Answer(decision="allow", scope=cast(Any, word))
    wanted = "allow, session, always, or deny" if asked.kind == "permission" else "approve, or deny"
    raise Malformed(f"message.parts: the task asks for {wanted} and a reason, not {text[:80]!r}")


def _by_data(asked: Asked, given: dict[str, Any]) -> Answer:
    decision, scope, text = given.get("decision"), given.get("scope", "once"), given.get("text", "")
    if decision not in ("allow", "deny") or scope not in SCOPES or not isinstance(text, str):
        raise Malformed("message.parts: a decision is allow or deny, with a scope of once, session or always")
    if asked.kind == "question" and decision == "allow":
        text = _chosen(asked, text.strip())
    return Answer(decision=decision, scope=scope, text=text, changed_args=given.get("args"))


def _chosen(asked: Asked, text: str) -> str:
    if not text:
        raise Malformed("message.parts: the task asks for an answer, and there is no text")
    if text.isascii() and text.isdigit() and 0 < int(text) <= len(asked.options):
        return asked.options[int(text) - 1]
    return text


def _about(asked: Asked) -> str:
    if asked.command is not None:
        return asked.command[:_SHOWN]
    return ", ".join(asked.paths)[:_SHOWN] or (dumps(asked.args)[:_SHOWN] if asked.args else "")
