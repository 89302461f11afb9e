"""Packages that take longer to load than the tests that use them to run: loaded when one of those begins.

Every worker collects every test, so a package that one of them needs would be loaded by all. Python's own `LazyLoader`
is no help: an `import` statement looks at the module's `__spec__`, which loads it.
"""

import importlib.util
import sys
from types import ModuleType
from typing import Any

PACKAGES = ("acp", "claude_agent_sdk", "mcp", "mcp_types", "schemathesis")


class _Late(ModuleType):
    """Stands for a package until the first use of anything in it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name != "__path__":  # pytest tries these on all that a test file holds
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def load_lazily() -> None:
    """An `import` of one of these costs nothing from now on."""
    for name in PACKAGES:
        spec = importlib.util.find_spec(name) if name not in sys.modules else None
        if spec is not None:
            late = _Late(name)
            late.__spec__, late.__file__ = spec, spec.origin
            sys.modules[name] = late
