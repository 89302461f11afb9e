"""Every call of the HTTP interface: importing this module imports those that define them."""

from treadle.serve.api import choices, devices, goals, landing, machines, orders, questions, reviews, shares, terminals
from treadle.serve.api.calls import TABLE, ApiCall
from treadle.serve.notify import push

MODULES = (choices, devices, goals, landing, machines, orders, push, questions, reviews, shares, terminals)


def every() -> list[ApiCall]:
    return TABLE
