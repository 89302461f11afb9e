"""What agents ask, and what people say to them."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from treadle.fleet import client
from treadle.serve.api.calls import Asking, RequestBody, call
from treadle.serve.api.orders import MessageShown, Text, messages_shown
from treadle.wire.fleet.records import AskRecord


@call("GET", "/approvals", returns=list[AskRecord])
async def list_approvals(asking: Asking) -> list[AskRecord]:
    """What waits for an answer now, the nearest deadline first."""
    return await client.approvals(asking.bus)


class NewAnswer(RequestBody, frozen=True, kw_only=True):
    decision: Literal["allow", "deny"]
    number: Annotated[int, Meta(ge=1, le=1 << 31)] | None = None
    """The question of the order that was read; a newer one is then not answered by mistake."""
    text: Annotated[str, Meta(max_length=20_000)] = ""
    scope: Literal["once", "session", "always"] = "once"


@call("POST", "/orders/{id}/answer", right="answer", body=NewAnswer)
async def answer_order(asking: Asking) -> None:
    """Answer what an order asks. A second answer is refused (409), with who gave the first."""
    given: NewAnswer = asking.body
    await client.answer(
        asking.bus,
        await asking.order(),
        given.decision,
        number=given.number,
        text=given.text,
        scope=given.scope,
        by=asking.by,
    )


class AnswerNumber(RequestBody, frozen=True, kw_only=True):
    number: Annotated[int, Meta(ge=1, le=1 << 31)]


@call("POST", "/orders/{id}/withdraw", right="answer", body=AnswerNumber)
async def withdraw_answer(asking: Asking) -> None:
    """Take back an answer that the runner has not picked up yet."""
    await client.withdraw(asking.bus, await asking.order(), asking.body.number)


class NewMessage(RequestBody, frozen=True, kw_only=True):
    text: Text
    when: Literal["", "now", "turn"] = ""
    """`now` ends the running turn for the message, `turn` waits for its end; empty waits for the agent's next step."""


class MessageKey(msgspec.Struct, frozen=True):
    key: str


@call("POST", "/orders/{id}/messages", right="answer", body=NewMessage, returns=MessageKey, status=201)
async def say_to_order(asking: Asking) -> MessageKey:
    """Leave a message for the agent, given to it at its next step."""
    given: NewMessage = asking.body
    return MessageKey(await client.say(asking.bus, await asking.order(), given.text, when=given.when, by=asking.by))


@call("GET", "/orders/{id}/messages", returns=list[MessageShown])
async def list_messages(asking: Asking) -> list[MessageShown]:
    """The messages to an order: queued, delivered, in turn, or taken back."""
    return await messages_shown(asking.bus, await asking.order())


class EditedMessage(RequestBody, frozen=True, kw_only=True):
    text: Annotated[str, Meta(max_length=100_000)] = ""
    """An empty text takes the message back."""


@call("PUT", "/orders/{id}/messages/{number}", right="answer", body=EditedMessage)
async def edit_message(asking: Asking) -> None:
    """Change or take back a message that was not delivered yet."""
    await client.edit_message(asking.bus, f"{await asking.order()}.{asking.path('number')}", asking.body.text)
