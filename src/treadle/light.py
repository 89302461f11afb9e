"""For modules that small commands import: names that only type checkers need, without importing `typing` at run time.

`typing` costs as much as half a bare interpreter start, more than argparse. So a light module imports these names from
here, and what else only type checkers need under `if TYPE_CHECKING:`, which they understand by its name. Everything
else imports `typing` as usual.
"""

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any as Any
    from typing import NoReturn as NoReturn
    from typing import TypeAlias as TypeAlias
else:
    Any = NoReturn = TypeAlias = object
