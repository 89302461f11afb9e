"""The headless worker protocol: an agent as a process that another program owns (seed 000).

JSON lines: the client writes requests to the worker's stdin, the worker writes responses to its stdout, and every
request carries an id that its answer repeats ("Protocol Overview"). After `init` and `init_ok` the client may `send` a
message; events stream back, numbered from 0 for each send, until one `result` ends it ("Lifecycle"). `status`, `cancel`
and `shutdown` may be written at any time ("Requests"); errors share one envelope ("Error Envelope").

    messages    what is said: requests, responses, event payloads
    connection  one message to one line and back, tolerant in and strict out; what may be said when: the states, the
                table, both ends
    events      our events to and from the protocol's
    versions    which versions understand each other, and what each added

Protocol version 0.2.0 is the specification's; later ones are additions of ours, off unless the client asks for them.
The reference is docs/reference/worker-protocol.md.
"""
