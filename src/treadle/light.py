"""For modules that small commands import: names that only type checkers need, without importing `typing` at run time.

`typing` costs as much as half a bare interpreter start, more than argparse. So a light module imports these names from
here, and what else only type checkers need under `if TYPE_CHECKING:`, which they understand by its name. Everything
else imports `typing` as usual.
"""

TYPE_CHECKING = False

if TYPE_CHECKING:
    from re import Pattern
    from typing import Any as Any
    from typing import AnyStr
    from typing import NoReturn as NoReturn
    from typing import TypeAlias as TypeAlias
else:
    Any = NoReturn = TypeAlias = object


class _Later:
    def __init__(self, *given: Any) -> None:
        self.given = given

    def __getattr__(self, name: str) -> Any:
        import re

        value = getattr(re.compile(*self.given), name)
        setattr(self, name, value)
        return value


def regex(pattern: "AnyStr", flags: int = 0) -> "Pattern[AnyStr]":
    """A regular expression that is compiled when it is first used: compiling costs more than most modules do."""
    return _Later(pattern, flags)  # type: ignore[return-value]
