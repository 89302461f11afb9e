"""What a relay runs outside of a sandbox, as a program of its own, once for each request from inside.

The identity is HEIMDALL_HAID of this process, which the one that made the sandbox has set. A request says only what is
to be done, in the words of the `heimdall-*` commands; what it may say is listed here. Nothing is read or written in
the worktree, where the agent could have put a link in the way: HEIMDALL_PLANNING_DIR of this process is the live state.
"""

import io
import os
import signal
import sys

from treadle.cli.heimdall.dispatch import run
from treadle.cli.heimdall.table import Arguments, UsageError, err
from treadle.coordination import relay, repository
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.identity import checked
from treadle.coordination.planning import Planning, one_line
from treadle.coordination.relay import LARGEST, LISTENING, SECONDS, RelayRequest, parse_request
from treadle.errors import ConfigError, Denied, TreadleError
from treadle.io.paths import here
from treadle.light import NoReturn

ALLOWED: dict[str, dict[str, tuple[str, str]]] = {
    "claim": {
        "claim": ("--task --ttl", "--shared"),
        "release": ("--haid", ""),
        "heartbeat": ("", ""),
        "check": ("", "--shared --json"),
        "list": ("", "--json"),
        "who": ("", "--json"),
        "show": ("--haid", "--json"),
        "proof": ("", ""),
        "reap": ("", ""),
    },
    "haid": {
        "": ("", ""),
        "current": ("", ""),
        "trailer": ("", ""),
        "register": ("--role --tool --tool-version", ""),
        "heartbeat": ("", ""),
        "check": ("", ""),
        "get": ("", ""),
        "list": ("", "--json"),
    },
    "ledger": {"log": ("--role --kind --tokens --msg-id --source --run", ""), "report": ("--run", "--json")},
    "validate": {"": ("", "--on-receipt --schema")},
}
"""Command -> its first word -> the options and flags that may be given from inside."""
READING = ("show", "check", "get")
"""What may be asked about another identity."""
RECORDS = ("resolve", "capsule", "brief", "blackboard", "gate", "protocol")
"""Commands on the records that people commit, which are files in the worktree."""


def main() -> int:
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    try:
        request = parse_request(_request_line())
        _check_top(request)
        if request.command == "ledger-mcp":
            return _serve(request)
        code, out, err = _done(request)
    except _TookTooLong:
        code, out, err = 2, b"", f"heimdall: it took longer than {SECONDS} s and was given up\n".encode()
    except UsageError as error:
        code, out, err = 2, b"", f"heimdall: {error}\n".encode(errors="backslashreplace")
    except TreadleError as error:
        hint = f"\n  {error.hint}" if error.hint else ""
        code, out, err = 2, b"", f"heimdall: {error.message}{hint}\n".encode(errors="backslashreplace")
    if len(out) + len(err) > LARGEST:
        code, out, err = 2, b"", f"heimdall: the answer has more than {LARGEST >> 20} MiB\n".encode()
    _send(relay.answer(code, out, err))
    return 0


class _TookTooLong(Exception):
    pass


def _late(number: int, frame: object) -> NoReturn:
    raise _TookTooLong


def _request_line() -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        more = os.read(0, 1 << 16)
        data += more
        if not more or len(data) > LARGEST:
            raise ConfigError("the request is not one line, or too long")
    return data


def _send(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _check_top(request: RelayRequest) -> None:
    found = repository.find(here())
    below = found is not None and f"{request.top}/".startswith(f"{found.top}/")
    there = repository.locate(request.top) if below else None
    if found is None or there is None or there[0] != found.top:
        raise Denied(
            f"the relay of this session is for {found.top if found else here()}, not for {request.top}",
            hint="to claim there, use a session in that repository",
        )


def _done(request: RelayRequest) -> tuple[int, bytes, bytes]:
    """Run the command in this process, with its standard streams kept."""
    streams = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(request.stdin), encoding="utf-8", errors="surrogateescape")
    sys.stdout, sys.stderr = io.TextIOWrapper(out), io.TextIOWrapper(err)  # for their buffers: commands write bytes
    try:
        code = _run(request)
        return code, out.getvalue(), err.getvalue()
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams


def _run(request: RelayRequest) -> int:
    if request.command == "hook":
        return _hook(request)
    if request.command == "claim" and request.arguments[:1] == ["guard"]:
        return _guard(request)
    check(request)
    return run(request.command, request.arguments)


def check(request: RelayRequest) -> None:
    """Raises Denied for what may not be asked from inside."""
    if request.command in RECORDS:
        raise Denied(
            f"{request.command} cannot change records of the worktree from inside a sandbox",
            hint="read them in .planning, or run this outside of the sandbox",
        )
    known = ALLOWED.get(request.command, {}).values()
    options, flags = ({word for one in known for word in one[place].split()} for place in (0, 1))
    try:
        args = Arguments(request.arguments, " ".join(options), " ".join(flags))
    except UsageError:
        raise _refused(request) from None
    first, *rest = args.rest or [""]
    allowed = ALLOWED.get(request.command, {}).get(first)
    used = {*args.values, *args.flags}
    if allowed is None or not used <= {word for words in allowed for word in words.split()}:
        raise _refused(request)
    own = os.environ["HEIMDALL_HAID"]
    named = [args.get("--haid"), *(rest if request.command == "haid" else ())]
    if first not in READING and any(name not in ("", own) for name in named):
        raise Denied(f"inside a sandbox, only {own} can act", hint="ask the holder, or a person outside")


def _refused(request: RelayRequest) -> Denied:
    words = one_line(" ".join([f"heimdall-{request.command}", *request.arguments]))
    return Denied(f"this cannot be done from inside a sandbox: {words[:500]}", hint="a person can run it outside")


def _guard(request: RelayRequest) -> int:
    """The check of a git hook, on what the hook found inside."""
    from treadle.coordination import hooks

    args = Arguments(request.arguments, "--mode")
    mode = args.get("--mode", "block")
    if len(args.rest) != 2 or args.rest[1] not in hooks.HOOKS or mode not in ("block", "warn"):
        raise _refused(request)
    if request.changed is None:
        raise ConfigError("the request does not list what is committed or pushed")
    claims = _claims()
    claims.agents.require(own := checked(os.environ["HEIMDALL_HAID"]))
    # What records contain belongs to no one, as in hooks outside.
    made = [(by, [name for name in files if not name.startswith(".planning/")]) for by, files in request.changed]
    try:
        for overlap in hooks.judge(claims, args.rest[1], own, mode, made):
            err(f"warning: {overlap}")
        return 0
    except Collision as collision:
        err(f"{collision.message}\n  you are {own}")
        return 3


def _claims() -> Claims:
    planning = Planning()
    found = repository.find(planning.project)
    return Claims(planning, found.top if found else planning.project)


def _hook(request: RelayRequest) -> int:
    """The hook of an outside agent before a tool call, as if it was asked at the top of this worktree."""
    from treadle.cli.heimdall.hook import run_hook

    files = [name for _, names in request.changed or () for name in names]
    return run_hook(request.arguments, request.stdin, top=request.top, staged=files)


def _serve(request: RelayRequest) -> int:
    from treadle.coordination.mcp import Server, serve

    if request.arguments not in ([], ["--extended"]):
        raise _refused(request)
    own = checked(os.environ["HEIMDALL_HAID"])
    server = Server(Planning(), extended=bool(request.arguments), identity=own, live=True)
    signal.alarm(0)
    _send(LISTENING)
    serve(server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
