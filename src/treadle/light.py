"""For modules that small commands import: names that only type checkers need, without importing `typing` at run time.

`typing` costs as much as half a bare interpreter start, more than argparse. So a light module says

    from treadle.light import TYPE_CHECKING

    if TYPE_CHECKING:
        from typing import Any

which type checkers understand by its name. Everything else imports `typing` as usual.
"""

TYPE_CHECKING = False
