"""What each approval mode says about each kind of tool."""

from typing import Literal, TypeAlias

from treadle.session import Access, Decision, Mode

Category: TypeAlias = Literal["read", "network", "write", "execute"]
HookVerdict: TypeAlias = Literal["allow", "ask", "deny"]

MATRIX: dict[Mode, dict[Category, HookVerdict]] = {
    "plan": {"read": "allow", "network": "allow", "write": "deny", "execute": "deny"},
    "suggest": {"read": "allow", "network": "allow", "write": "ask", "execute": "ask"},
    "auto-edit": {"read": "allow", "network": "allow", "write": "allow", "execute": "ask"},
    "full-auto": {"read": "allow", "network": "allow", "write": "allow", "execute": "allow"},
    "yolo": {"read": "allow", "network": "allow", "write": "allow", "execute": "allow"},
}
_STRICTNESS: tuple[Mode, ...] = ("yolo", "full-auto", "auto-edit", "suggest", "plan")


def stricter(a: Mode | None, b: Mode | None) -> Mode | None:
    """The one of two modes that allows less; no mode at all allows the most."""
    known = [mode for mode in (a, b) if mode is not None]
    return max(known, key=_STRICTNESS.index, default=None)


def category(access: Access) -> Category:
    """Whatever is not reading, writing or network counts as executing, which is the most it could do."""
    return "execute" if access.kind == "other" else access.kind


def judge(access: Access, mode: Mode) -> Decision:
    kind = category(access)
    verdict = MATRIX[mode][kind]
    reason = ""
    if verdict == "ask":
        reason = f"{access.tool} ({kind}) requires approval in {mode} mode"
    elif verdict == "deny":
        reason = f"{access.tool} ({kind}) is not allowed in {mode} mode"
    return Decision(verdict=verdict, reason=reason, by="mode")
