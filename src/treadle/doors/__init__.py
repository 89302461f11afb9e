"""Agents offered on wires: one folder per protocol, each a server for one client.

A door is given an Agent and speaks a protocol of `wire` to its client. It does not know which agent it has, and an
agent does not know on which door it is offered; both know only `treadle.session`.

Words:
    door        the server's end of a protocol: requests in, sessions driven, events out
    client      the program at the other end: an editor, an SDK, a script, a control plane
    outbox      the output on its way to a client that may be slow or gone
    approval    a client's answer to a question of the session; it may carry another input

Flow: the wire's `Connection` turns the client's bytes into requests; the door opens a Session, sends prompts, answers
and interrupts; the session's events are read losslessly and written as the wire's messages. Questions of the session
become requests to the client, and its replies become answers.

Promises, and who keeps each:
    Pending output is bounded: a producer that is too fast waits for room.                      outbox
    When the client goes away, turns are interrupted and sessions closed.                       rpc, each door
    A decision that cannot be carried out as it was given is a denial, never an approval.       each door
    What a protocol asks for and the agent cannot do is refused with the reason.                sessions/abilities
    No field of a client's is ignored in silence.                                               fields
    An input that was changed in an approval is the one that runs.                              approvals

    a2a, acp, codex, mcp, oneshot, sidecar, worker      one folder each; `door.py` is where to begin

`host`, `serve` and `cli` import it; it imports `agent`, `receipts`, `sessions` and what is below, and no driver. What
the bytes mean is in `wire`; HTTP for A2A is in `serve`.
"""
