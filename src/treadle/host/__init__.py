"""The control plane for one order: run any agent or sidecar once, watch it, and leave a receipt.

Words:
    order       a work order of the sidecar contract (`wire/sidecar`): task, workspace, policy, limits
    job         what a run is asked to do, with who does it and what is checked at the end
    backend     a sidecar program or an agent of ours that can carry out orders
    executor    the one that does it: a sidecar process on its wire, or an agent's session in this process
    check       the person's command that judges the result, run on the tree that the receipt states
    evidence    what a check showed of some work: a record of its own, which its receipt names
    chain       all receipts of this machine, each linked to the one before

Flow: flags or a file become an order (`order`), `backends` finds who fits, `job` writes the run's directory. `run`
prepares the workspace, starts the executor behind the sandbox (`confine`), follows its events, and stops it on a
violation or limit. Then the result is taken as a tree, checked in a fresh directory, and `conclusion` writes the
receipt, signs it if asked, adds it to the chain (`store`) and applies or keeps the changes.

Promises, and who keeps each:
    Every run that has begun gets one receipt; if the host was killed, the next one writes it.  run, conclusion
    What is on disk is enough to conclude a run; the lock tells whether its host lives.         job
    The check sees the stated tree, not the directory that the agent left.                      run
    A sidecar that breaks its order's policy where it can be seen is cancelled.                 order
    A receipt that was removed, moved or edited is detected.                                    store, signing
    A `backplane.toml` that came with a clone counts only when it is trusted or named.          backends
    An order that is tried again has a receipt for each attempt; the last lists the others.     backends

`fleet`, `landing` and `cli` import it; it imports `agents.py`, `drivers`, `receipts`, `sandboxed` and what is below.
Many orders, queues and other machines are in `fleet`.
"""
