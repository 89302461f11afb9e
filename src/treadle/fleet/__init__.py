"""Many orders on one machine or many, on NATS JetStream. Commands and HTTP handlers call what is in `client.py`.

engine     the NATS server, its streams and rights, and how everything else reads and writes them
schedule   what one elected scheduler decides: an order's states, who works on what, what waits and why
run        one attempt at an order: its process, its workspace, its questions, its events and what it leaves
join       how another machine becomes a worker
find       all orders in a form that can be filtered, counted and searched
intake     how an order gets in: the project's defaults, stored once, its repository sent along
review     the work of finished orders, for those who judge it

Here lie the records that all rooms share (`orders`, `control`, `accounts`, `schedules`), what a client may ask
(`client`, `listing`, `glance`, `library`), and the processes of one machine (`node`, `up`).
HTTP and the page are not here but in `serve`; how one order is carried out without a fleet is in `host`.

For Python programs, `treadle.fleet` has the functions of `library`, which load on first use.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.fleet.library import ConnectedFleet as ConnectedFleet
    from treadle.fleet.library import OrderRequest as OrderRequest
    from treadle.fleet.library import answer as answer
    from treadle.fleet.library import cancel as cancel
    from treadle.fleet.library import connect as connect
    from treadle.fleet.library import questions as questions
    from treadle.fleet.library import receipt as receipt
    from treadle.fleet.library import submit as submit
    from treadle.fleet.library import wait as wait
    from treadle.fleet.library import watch as watch

_NAMES = frozenset("ConnectedFleet OrderRequest answer cancel connect questions receipt submit wait watch".split())


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module 'treadle.fleet' has no attribute {name!r}")
    from treadle.fleet import library

    return getattr(library, name)
