"""Public helpers for tests of agents: a scripted model over real HTTP, and a faulty peer.

They let a test run real processes and sockets without a paid model or a network. Nothing of ours is mocked: what is
replaced is the other side.

Words:
    script        the replies of a model in TOML (docs/reference/scripted-model.md), played in order
    fault         a way in which a service or a peer breaks, performed on a real socket or stream

    server           the scripted model in four wire formats , with faults
    faulty_worker    a worker that follows a script, right or wrong

Promises, and who keeps each:
    A peer that stands for another vendor's program imports nothing of ours.      faulty_worker

For tests. In the product only `conform` imports it; it may import whatever it helps to test.
"""
