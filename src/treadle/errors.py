"""The one error tree. Its first branch tells whose fault it was.

TreadleError                    error             the root of them all
├── LocalError                  us, our user, this machine
│   ├── ConfigError             config_error      a setting, flag, key or file is wrong or missing
│   │   ├── NoModel             no_model          no model or agent is configured; exit code 2
│   │   └── MissingExtra        missing_extra     an optional dependency is not installed
│   ├── LocalProtocolError      protocol_error    we tried to send what the protocol does not allow now
│   ├── Busy                    busy              a bounded queue is full
│   ├── NotFound                not_found         no such session, request, task, agent
│   ├── Denied                  permission_denied a rule, mode, hook or person said no
│   ├── Unsupported             unsupported       a required capability is not offered
│   ├── PolicyNotEnforceable    policy_not_enforceable  the order's policy cannot be enforced on the agent
│   ├── ToolError               tool_error        a tool could not do what was asked
│   ├── StorageError            storage_error     unreadable, not to be written, written by a newer version
│   │   └── DiskFull            disk_full         the disk is full, or the quota used up
│   ├── WorkspaceError          workspace_error   a working copy cannot be made, compared or applied
│   ├── LimitReached            limit_reached     one of the limits of a turn or a session
│   │   ├── MaxIterations       max_iterations    the turn used up its model calls
│   │   ├── BudgetExceeded      budget_exceeded   the cost or token limit is reached, or cannot be enforced
│   │   ├── TimedOut            timeout           it took longer than allowed
│   │   └── LoopDetected        loop_detected     the same tool calls were repeated again and again
│   └── Cancelled               cancelled         it was interrupted
└── RemoteError                 the other end of a wire
    ├── RemoteProtocolError     protocol_error    it sent what the protocol does not allow
    │   ├── InvalidJson         invalid_json      what it sent cannot be parsed at all
    │   ├── Violation           protocol_violation  parsed, but not allowed here: the first line, the order, an id
    │   ├── LineTooLong         line_too_long     a line or frame is over the cap
    │   └── VersionMismatch     protocol_version_mismatch  it speaks another major version
    ├── PeerExited              peer_exited       it exited; with its exit code and the end of its stderr
    ├── PeerFatal               peer_fatal        it gave up, and said why
    ├── PeerClosed              peer_closed       it closed the stream that we write to
    ├── PeerStalled             peer_stalled      it no longer answers
    └── ProviderError           provider_error    a model service failed; may be retryable
        ├── RateLimited         rate_limited      too many requests
        ├── AuthFailed          auth_failed       the key is missing, wrong or not allowed
        ├── ContextOverflow     context_overflow  the conversation is larger than the model's window
        └── EmptyReply          empty_reply       the model sent an empty answer twice

This module imports nothing of ours and nothing heavy: everything may import it.
"""

from __future__ import annotations

from treadle.light import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import ClassVar, Literal, TypeAlias

    ErrorKind: TypeAlias = Literal["transient", "permanent", "person"]


class TreadleError(Exception):
    """`message` says what happened and why; `hint`, where there is one, says what to do about it."""

    code: ClassVar[str] = "error"
    ends_with: ClassVar[int] = 1
    """The exit code of a command that fails with it."""
    retryable: bool = False
    """Whether the same may go well another time."""
    needs_person: bool = False
    """Whether it goes well only after a person has seen to something."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        retryable: bool | None = None,
        details: Any = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details
        self.retry_after_ms = retry_after_ms
        if retryable is not None:
            self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def envelope(self) -> dict[str, Any]:
        """The form in which every wire reports an error."""
        body: dict[str, Any] = {
            "code": self.code,
            "message": str(self),
            "retryable": self.retryable,
            "details": self.details,
        }
        if self.retry_after_ms is not None:
            body["retry_after_ms"] = self.retry_after_ms
        return body


class LocalError(TreadleError):
    code = "local_error"


class ConfigError(LocalError):
    code = "config_error"
    needs_person = True


class NoModel(ConfigError):
    code = "no_model"
    ends_with = 2


class MissingExtra(ConfigError):
    code = "missing_extra"

    def __init__(self, feature: str, extra: str) -> None:
        from treadle.installation import adding

        super().__init__(f"{feature} needs the optional part treadle[{extra}]", hint=adding(extra))


class LocalProtocolError(LocalError):
    code = "protocol_error"


class Busy(LocalError):
    code = "busy"
    retryable = True


class NotFound(LocalError):
    code = "not_found"


class Denied(LocalError):
    code = "permission_denied"
    needs_person = True


class Unsupported(LocalError):
    code = "unsupported"


class PolicyNotEnforceable(LocalError):
    code = "policy_not_enforceable"


class ToolError(LocalError):
    code = "tool_error"


class StorageError(LocalError):
    code = "storage_error"


class DiskFull(StorageError):
    code = "disk_full"
    retryable = True


class WorkspaceError(LocalError):
    code = "workspace_error"


class LimitReached(LocalError):
    code = "limit_reached"


class MaxIterations(LimitReached):
    code = "max_iterations"


class BudgetExceeded(LimitReached):
    code = "budget_exceeded"


class TimedOut(LimitReached):
    code = "timeout"


class LoopDetected(LimitReached):
    code = "loop_detected"


class Cancelled(LocalError):
    code = "cancelled"


class RemoteError(TreadleError):
    code = "remote_error"


class RemoteProtocolError(RemoteError):
    code = "protocol_error"


class InvalidJson(RemoteProtocolError):
    code = "invalid_json"


class Violation(RemoteProtocolError):
    code = "protocol_violation"


class LineTooLong(RemoteProtocolError):
    code = "line_too_long"


class VersionMismatch(RemoteProtocolError):
    code = "protocol_version_mismatch"


class PeerExited(RemoteError):
    code = "peer_exited"

    def __init__(self, what: str, exit_code: int | None, stderr_tail: str = "", **more: Any) -> None:
        words = f"; its last words: {stderr_tail.strip()[-2000:]}" if stderr_tail.strip() else ""
        # SIGKILL and SIGTERM come from outside, such as from a kernel without memory or a sandbox whose watcher was
        # killed: the same program may do better. No exit code means that the process which watched it was killed.
        more.setdefault("retryable", exit_code in (-9, 137, -15, 143, None))
        how = "ended, and its exit code is unknown" if exit_code is None else f"exited with code {exit_code}"
        super().__init__(f"{what} {how}{words}", **more)
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail


class PeerFatal(RemoteError):
    code = "peer_fatal"


class PeerClosed(RemoteError):
    code = "peer_closed"


class PeerStalled(RemoteError):
    code = "peer_stalled"


class ProviderError(RemoteError):
    code = "provider_error"

    def __init__(self, message: str, *, provider: str = "", status: int | None = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.provider = provider
        self.status = status
        self.patience = float("inf")
        """For how many seconds retrying makes sense: a missing server on this machine will not appear soon."""


class RateLimited(ProviderError):
    code = "rate_limited"
    retryable = True


class AuthFailed(ProviderError):
    code = "auth_failed"
    needs_person = True


class ContextOverflow(ProviderError):
    code = "context_overflow"


class EmptyReply(ProviderError):
    code = "empty_reply"
    retryable = True


_PASSING = frozenset("EAGAIN EDQUOT EINTR EMFILE ENFILE ENOMEM ENOSPC ENETDOWN ENETUNREACH EHOSTUNREACH".split())


def kind_of(error: BaseException) -> ErrorKind:
    """How to go on after an error: again later, never, or when a person has seen to it."""
    if isinstance(error, TreadleError):
        if error.retryable or isinstance(error, TimedOut):
            return "transient"
        if isinstance(error.__cause__, OSError) and kind_of(error.__cause__) == "transient":
            return "transient"  # such as a file that could not be written because the disk was full
        return "person" if error.needs_person else "permanent"
    if isinstance(error, OSError):
        from errno import errorcode

        passes = isinstance(error, (ConnectionError, TimeoutError)) or errorcode.get(error.errno or 0) in _PASSING
        return "transient" if passes else "permanent"
    return "permanent"
