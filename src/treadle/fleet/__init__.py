"""Many orders, on one machine or many: stored in NATS JetStream, placed by one scheduler, each carried out to its end.

Words:
    order      a task with its repository, agent, limits and checks; `wire/fleet/orders.py` declares its fields
    engine     the NATS server with its streams: the only state that machines share
    scheduler  the one elected node that writes the state of orders
    node       a machine's process that starts runners and can be elected
    runner     the process of one attempt at an order; it outlives the node that started it
    attempt    one try, by number; the number only grows, and reports of an older attempt are dropped (the fence)

Flow: `submission` stores an order; the scheduler places it on a node (`schedule`); the node starts a runner (`run`),
which lets `host` carry the order out, reports beats and events, and asks its questions as records. The end comes back
as a report, and the scheduler stores it with the receipt. People and programs read and steer through `client`.

    engine     the server, its streams and rights, how everything else reads and writes them, and `controller`: what
               scheduler, trains and goals have in common (lease, steps, back-off)
    schedule   an order's states, who works on what, what waits and why: `book` is pure
    run        one attempt: its process, its directory, its questions, its events and what it leaves
    join       how another machine becomes a worker

Promises, and who keeps each:
    An accepted order runs to an end, and ends once; a repeated key makes no second order.      schedule/book
    A scheduler that lost its lease can write nothing.                                          schedule/scheduler
    What is decided is stored before it is sent; what is reported stays until handled.          schedule, engine/streams
    A runner that cannot reach the engine for a lease stops before the agent's next step.       run/runner
    No git of ours runs where an agent could write.                                             run/trees
    Each role can do on the engine what it needs and no more.                                   engine/server
    The same function places an order and explains why it waits.                                schedule/placing

`landing`, `goals`, `serve` and `cli` import it; it imports `host`, `coordination`, `terminal` and what is below. HTTP
is in `serve`, landing in `landing`. For Python programs, `treadle.fleet` has the functions of `library`, loaded on use.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.fleet.library import ConnectedFleet as ConnectedFleet
    from treadle.fleet.library import OrderRequest as OrderRequest
    from treadle.fleet.library import SubmittedOrder as SubmittedOrder
    from treadle.fleet.library import connect as connect

_NAMES = ("ConnectedFleet", "OrderRequest", "SubmittedOrder", "connect")


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module 'treadle.fleet' has no attribute {name!r}")
    from treadle.fleet import library

    return getattr(library, name)
