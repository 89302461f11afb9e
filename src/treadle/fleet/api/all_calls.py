"""Every call of the HTTP interface: importing this module imports those that define them."""

from treadle.fleet.api import devices, machines, orders, push, questions, reviews, terminals
from treadle.fleet.api.calls import TABLE, ApiCall

MODULES = (devices, machines, orders, push, questions, reviews, terminals)


def every() -> list[ApiCall]:
    return TABLE
