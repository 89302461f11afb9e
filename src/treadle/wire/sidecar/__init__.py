"""The sidecar protocol `abp/v0.1`: a control plane gives an agent a work order and gets a receipt (seed 004).

JSON lines over stdio, told apart by `t`. The sidecar says `hello` first; the host answers with `run`; the sidecar sends
`event`s and ends with exactly one `final` or `fatal` ("Lifecycle", "Envelope Types"). Versions must share their major
number ("Version Negotiation"); `cancel`, `ping` and `pong` are "Transport-Level Extensions"; the seven rules that both
ends keep are under "Rules".

    connection  work orders and envelopes, what may be said when, and the JSON Schemas of its types
    receipts    the receipt and its parts, its canonical bytes and its hash
    repair      reading what peers get wrong, with a note for each repair
    events      our events to and from the contract's

The reference is docs/reference/sidecar-protocol.md.
"""
