"""What pi's messages mean in our events. Pure."""

import re
from typing import Any

from treadle.events import ErrorInfo, ToolKind, Usage
from treadle.wire.common.numbers import amount, count

KINDS: dict[str, ToolKind] = {
    "bash": "execute",
    **dict.fromkeys(("read", "grep", "find", "ls"), "read"),
    **dict.fromkeys(("write", "edit"), "write"),
}


def text_of(message: Any) -> str:
    """The text of a message's or a result's content."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    parts = [part for part in content or [] if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(str(part.get("text") or "") for part in parts)


def thinking_of(message: Any) -> str:
    parts = message.get("content") if isinstance(message, dict) else None
    found = [part for part in parts or [] if isinstance(part, dict) and part.get("type") == "thinking"]
    return "".join(str(part.get("thinking") or "") for part in found)


def usage(message: dict[str, Any]) -> Usage | None:
    """None for a reply that produced nothing. pi reports a price of zero when it does not know the price."""
    used = message.get("usage")
    if not isinstance(used, dict):
        return None

    cost = used.get("cost")
    total = cost.get("total") if isinstance(cost, dict) else None
    found = Usage(
        model=str(message.get("model") or ""),
        input_tokens=count(used.get("input")),
        output_tokens=count(used.get("output")),
        cache_read_tokens=count(used.get("cacheRead")),
        cache_write_tokens=count(used.get("cacheWrite")),
        cost_usd=amount(total) or None,
    )
    return found if found.prompt_tokens or found.output_tokens else None


def error_info(message: str) -> ErrorInfo:
    """The HTTP status is the first number in the text, if the service gave one."""
    found = re.match(r"\s*(\d{3})\b", message)
    status = int(found.group(1)) if found else None
    code = {401: "auth_failed", 403: "auth_failed", 429: "rate_limited"}.get(status or 0, "provider_error")
    return ErrorInfo(
        code=code, message=message, retryable=status == 429 or (status or 0) >= 500, details={"status": status}
    )
