"""The receipt of a run: what was claimed, what was observed, what was checked.

A sidecar may claim anything. So a receipt keeps apart what the sidecar said and what the host saw, and fills the
contract's fields from what was seen wherever that is possible. The types, their normal form and the hash are the
protocol's, in `wire/sidecar/receipts.py`.

Words:
    trace       the events of a run as the host saw them, shortened and without secrets
    observed    all that the host knows of a run: trace, changes of the workspace, the check, the sandbox
    difference  a claim that does not match what was observed
    artifact    a file that the receipt names, copied out of the workspace and identified by its hash
    gate        what someone expects of a receipt, compared with what it states; that of a branch is in `host/gate.py`
    screen      what a receipt says about whether its work is good, as lines
    statement   the receipt as in-toto statements in DSSE envelopes, for standard tools

Flow: an agent in this process carries an order out as `work.AgentWork`; a sidecar does on its wire. `host` feeds events
and observations to `trace.Observed` while a run lasts; at the end it becomes a Receipt.
`differences` compares claims with it. Later `expecting` and `statement` read a stored receipt.

Promises, and who keeps each:
    Observed and claimed are never mixed in one field.                                          trace
    Secrets that are known are removed before anything is kept.                                 trace
    Each way in which a receipt can miss an expectation has a name.                             expecting
    A statement names no path of this machine.                                                  statement

`doors`, `host`, `fleet` and the rooms above import it; it imports `workspace`, `wire` and what is below. How a run is
carried out, and where receipts are stored and signed, is in `host`.
"""
