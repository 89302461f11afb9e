"""Signing in to an agent that speaks the Agent Client Protocol: the methods that it offers in its greeting.

A method that takes a key from an environment variable needs no person, so it is tried when the agent asks for it. The
others are for `treadle agents login`.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.drivers.acp import failures
from treadle.errors import AuthFailed
from treadle.io.rpc import CallFailed, Rpc

_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*_(?:[A-Z0-9]+_)*(?:KEY|TOKEN)\b")
Kind: TypeAlias = Literal["variable", "terminal", "agent"]


class SignIn(msgspec.Struct, frozen=True, kw_only=True):
    """A way to sign in. `agent`: it does it itself when told to; `terminal`: by a command that a person types."""

    id: str
    name: str = ""
    description: str = ""
    kind: Kind = "agent"
    variables: tuple[str, ...] = ()
    """Where it takes a key from."""
    arguments: tuple[str, ...] = ()
    """For a terminal: what follows its command."""


def offered(greeting: Mapping[str, Any]) -> tuple[SignIn, ...]:
    """The methods in the answer to `initialize`."""
    methods = greeting.get("authMethods")
    return tuple(_method(one) for one in (methods if isinstance(methods, list) else []) if _has_id(one))


def by_variable(methods: tuple[SignIn, ...], env: Mapping[str, str]) -> SignIn | None:
    """The first method for which the agent has everything that it needs."""
    return next((one for one in methods if one.variables and all(env.get(name) for name in one.variables)), None)


async def opened(
    agent: str, rpc: Rpc, methods: tuple[SignIn, ...], env: Mapping[str, str], open_: Callable[[], Awaitable[None]]
) -> None:
    """Open the session; if that needs a sign-in which needs no person, sign in first."""
    try:
        await open_()
    except CallFailed as error:
        method = by_variable(methods, env)
        if error.rpc_code != failures.AUTH_REQUIRED or method is None:
            raise explained(agent, error, methods) from error
        try:
            await rpc.call("authenticate", {"methodId": method.id})
            await open_()
        except CallFailed as again:
            raise explained(agent, again, methods) from again


def explained(agent: str, error: CallFailed, methods: tuple[SignIn, ...]) -> Exception:
    found = failures.of_call(agent, error)
    if isinstance(found, AuthFailed) and methods:
        variables = [f"set {' and '.join(one.variables)}" for one in methods if one.variables]
        found.hint = " or ".join([f"`treadle agents login {agent}`", *variables])
    return found


def _method(method: dict[str, Any]) -> SignIn:
    """Newer agents say what kind it is and name the variables; others say it in words."""
    words = " ".join(str(method.get(name) or "") for name in ("name", "description"))
    named = [one.get("name") for one in method.get("vars") or [] if isinstance(one, dict)]
    named += (
        [method["varName"]] if isinstance(method.get("varName"), str) else _VARIABLE.findall(words) if not named else []
    )
    variables = tuple(name for name in dict.fromkeys(named) if isinstance(name, str))
    arguments = tuple(map(str, method.get("args") or ()))
    kind: Kind = "terminal" if method.get("type") == "terminal" else "variable" if variables else "agent"
    return SignIn(
        id=method["id"],
        name=str(method.get("name") or ""),
        description=str(method.get("description") or ""),
        kind=kind,
        variables=variables if kind == "variable" else (),
        arguments=arguments,
    )


def _has_id(method: Any) -> bool:
    return isinstance(method, dict) and isinstance(method.get("id"), str)
