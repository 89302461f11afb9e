"""`treadle fleet`: many agents on one machine or many. One module for each group of commands."""

import click

from treadle.cli.fleet import machines, orders, steering


@click.group()
def fleet() -> None:
    """Run many agents on one or more machines, without lost tasks or edit conflicts.

    \b
    treadle fleet up                                   start the fleet on this machine
    treadle fleet submit "fix the test" --root . --verify "make test" --wait
    treadle fleet ls                                   list orders
    treadle fleet explain ORDER                        show why it waits or what it does
    treadle fleet approvals; treadle fleet answer ORDER allow
    treadle land ORDER ORDER                           land finished work on the branch
    treadle fleet down                                 stop the fleet

    An order is one task for an agent; ORDER is its id or an id prefix. Exit codes: 0 done, 1 error, 3 an order failed,
    4 cancelled, 124 timeout.
    """


for group in (machines, orders, steering):
    for command in group.COMMANDS:
        fleet.add_command(command)
