"""Signing in with the code of a link, and the devices that hold a token."""

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from treadle.errors import TreadleError
from treadle.serve.api.calls import Asking, RequestBody, call
from treadle.serve.envelope import RequestRefused, answer, failure
from treadle.serve.gate import BODY_SECONDS, Gate, address_of
from treadle.serve.tokens import Right

COOKIE_SECONDS = 400 * 86400


class Code(msgspec.Struct, frozen=True):
    code: Annotated[str, Meta(min_length=1, max_length=200)]


async def sign_in(gate: Gate, request: Request) -> Response:
    """`POST /login`: exchange the code of a link, once, for a cookie that no script can read and a proof that only
    pages of this origin can keep.
    """
    try:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                code = msgspec.json.decode(await request.body(), type=Code).code
        except (msgspec.MsgspecError, TimeoutError):
            raise RequestRefused(400, "bad_request", "the code cannot be read") from None
        made = await asyncio.to_thread(gate.tokens.exchange, code, request.headers.get("user-agent", ""))
        if made is None:
            gate.note_failure(address_of(request.scope), code)
            raise RequestRefused(401, "unauthorized", "this link was used before or has expired", hint=_ANEW)
    except TreadleError as error:
        return failure(error)
    device, cookie, proof = made
    response = answer({"right": device.right, "device": device.name, "proof": proof})
    response.set_cookie(
        gate.cookie,
        cookie,
        max_age=COOKIE_SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
        secure=gate.secure,
    )
    return response


_ANEW = "`treadle serve --link` prints a new one"


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    right: Right
    created: float
    used: float
    you: bool


@call("GET", "/devices", right="all", returns=list[DeviceRow])
async def list_devices(asking: Asking) -> list[DeviceRow]:
    """The devices that hold a token, and what each may do."""
    return [
        DeviceRow(
            id=each.id,
            name=each.name,
            right=each.right,
            created=each.created,
            used=each.used,
            you=each.id == asking.device.id,
        )
        for each in asking.site.tokens.read().devices
    ]


class NewLink(RequestBody, frozen=True, kw_only=True):
    right: Right = "answer"
    name: Annotated[str, Meta(max_length=80)] = ""


class MadeLink(msgspec.Struct, frozen=True):
    url: str


@call("POST", "/devices", right="all", body=NewLink, returns=MadeLink, status=201)
async def invite_device(asking: Asking) -> MadeLink:
    """A link that can be opened once, for another device."""
    code = await asyncio.to_thread(asking.site.tokens.link, asking.body.name, asking.body.right)
    return MadeLink(f"{asking.site.address}/#{code}")


@call("DELETE", "/devices/{id}", right="all")
async def revoke_device(asking: Asking) -> None:
    """Revoke a device's token, and close what the device has open."""
    device = await asyncio.to_thread(asking.site.tokens.revoke, asking.path("id"))
    await asking.site.cut_off(device.id)


class WhoAmI(msgspec.Struct, frozen=True):
    device: str
    right: Right
    user: str


@call("GET", "/me", returns=WhoAmI)
async def who_am_i(asking: Asking) -> WhoAmI:
    """Which device this token belongs to, and what it may do."""
    return WhoAmI(asking.device.name, asking.device.right, asking.site.user)
