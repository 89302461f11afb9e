"""Outside agents driven as sessions: one folder per program or protocol.

Words:
    card        how a driver describes an agent: command, abilities, losses, where it keeps its sessions. Plain data
    driver      an Agent made of an outside program: it starts the program and opens sessions with it
    driven session   a Session whose turns are carried out by that program
    enclosure   the sandbox around the whole program, so that the kernel also limits what it never asks about

Flow: `agents.py` finds a card by name and imports the driver that it names. The driver starts the program confined
(`launch`, `confined`), speaks its wire through `io.peer`, and turns its messages into events. What the program asks
permission for is judged by our rules and guards; a person is asked where these say so. Prompts and keys travel over
the program's input and environment, not on its command line, which every user of the machine can read.

Promises, and who keeps each:
    Every tool call that was reported as started is reported as ended.                          session
    An interrupt leaves nothing of the turn running.                                            session
    Limits that the program does not keep are enforced from outside.                            session, worker/driver
    A program sees an allow-list of our environment; a key that its files name is not added.    launch, confined
    A host that the agent wrote into its own settings does not count until a person names it.   confined
    A failure of the program is one typed error with its exit code and last words.              each driver

`agents.py`, `host`, `fleet` and `cli` import it; it imports `agent`, `sandboxed`, `sessions`, `settings` and what is
below, and no door. A folder registers by having `CARDS` in its `__init__.py`; cards are read without importing drivers.
"""
