"""`treadle fleet`: many agents on one machine or many. One module for each group of commands."""

from importlib import import_module

import click

PLACES = ("treadle.cli.fleet.orders", "treadle.cli.fleet.steering", "treadle.cli.fleet.machines")


class FleetGroup(click.Group):
    """Loads one module after the other until one has the command: `fleet ls` needs nothing of the other two."""

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        for place in PLACES:
            if name not in self.commands:
                for command in import_module(place).COMMANDS:
                    self.add_command(command)
        return super().get_command(ctx, name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        self.get_command(ctx, "")
        return super().list_commands(ctx)


@click.group(cls=FleetGroup)
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
