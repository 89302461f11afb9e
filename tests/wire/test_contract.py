"""One contract for every protocol in the folder; a new folder is found because the folders are listed."""

import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType

import pytest

import treadle.wire
from treadle.testing.wires import CHECKS


def protocols() -> list[ModuleType]:
    entries = pkgutil.walk_packages(treadle.wire.__path__, "treadle.wire.")
    found = [importlib.import_module(entry.name) for entry in entries]
    return [module for module in found if hasattr(module, "SAMPLES") and hasattr(module, "Connection")]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("module", protocols(), ids=lambda module: module.__name__.split(".")[2])
def test_every_wire_keeps_the_contract(module: ModuleType, check: Callable[[ModuleType], None]) -> None:
    check(module)
