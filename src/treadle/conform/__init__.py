"""The conformance kit: does a program keep one of the protocols? Behind `treadle conform`, for anyone's program.

Words:
    kit        the clauses of one protocol, with the specification that they are taken from
    clause     one sentence of the specification, its section, and a conversation that shows whether it is kept
    candidate  the program under test: a command
    ruling     what came of a clause: kept, broken or untried, with what was seen

Flow: `kit.judge` tries the clauses one after the other. Each starts the candidate anew in an empty directory, pointed
at a scripted model (`treadle.testing.server`), speaks to it (`lines`, `rpc`) and returns what was seen or raises.
`report` makes text, JSON, JUnit or a table of several programs of the rulings.

    worker, sidecar, oneshot, terminal, ledger    the protocols of the specifications that this product implements
    acp, mcp                                      protocols of others

Promises, and who keeps each:
    A program is judged only by what it writes and how it ends.                                 lines
    What could not be tried is `untried`, never `kept`.                                         kit
    No clause depends on another: each has a process and a directory of its own.                kit
    Every message is held against the schema that its protocol publishes.                       shapes
    Our own programs are held to the same clauses as any other.                                 the tests

Only `cli` imports it. It imports `agent` (scripts of the model), `io` and, alone among the rooms, `testing`. It does
not import `wire`: a misreading there would be on both sides.
"""
