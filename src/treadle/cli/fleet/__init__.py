"""`treadle fleet`: many agents on one machine or many. One module for each group of commands."""

import click

from treadle.cli.fleet import (
    machines,
    orders,
    queries,
    steering,
    terminals,
)


@click.group()
def fleet() -> None:
    """Run many agents, on one machine or many: orders go in, nothing is lost, nothing collides.

    \b
    treadle fleet up                                   start a fleet on this machine
    treadle fleet submit "fix the test" --root . --verify "make test" --wait
    treadle fleet ls                                   what there is
    treadle fleet explain ORDER                        why it waits, or what it does
    treadle fleet approvals; treadle fleet answer ORDER allow
    treadle land ORDER ORDER                           bring finished work onto the branch
    treadle fleet down                                 stop all of it

    An order is named by its id or the beginning of it. Exit codes: 0 done, 1 error, 3 an order failed, 4 cancelled,
    124 not in time.
    """


for group in (machines, orders, queries, steering, terminals):
    for command in group.COMMANDS:
        fleet.add_command(command)
