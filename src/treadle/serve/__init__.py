"""Fleet, goals and terminals over HTTP: REST and server-sent events for scripts, one WebSocket for the page.

Words:
    call       one row of the table in `api/calls`: method, path, right, types, and the function that does it
    right      what a device may do: watch, answer, all
    device     a browser or a script that holds a secret of its own
    topic      something that a tab follows over its socket; its next message is made when it can be sent
    notice     a message to a person who is not looking: by Web Push or a `--notify` target

Flow: a request passes `gate`, is checked against the types of its call, and becomes one function call, whose result
`envelope` writes as JSON. `fleet_link` reads the engine's streams once for all watchers, feeds the index and wakes
topics (`live`). `server` joins this with the page's files (`web`); `background` runs it as a process of its own.

    order_index, order_rows   all orders as rows to filter and count: a copy of the engine's streams
    api        the table of calls, their handlers by subject, and the OpenAPI document
    live       the WebSocket, its topics, and server-sent events
    notify     notices to browsers, phones and other programs
    web        the page itself: plain files, listed and served from memory

Promises, and who keeps each:
    No request is served before host, origin, token, size and rate were checked.                gate
    A cookie alone opens nothing: other ports of the machine get it too.                        tokens
    A device's secret is stored as a hash; a link's code works once.                            tokens
    The OpenAPI document and the checks come from one table.                                    api/calls, server
    A slow watcher misses states in between and delays no one.                                  live/socket
    Every error is a problem as RFC 9457 has it.                                                envelope
    Code that an agent wrote is coloured in a process that is ended if it takes too long.       colours

Only `cli` imports it; it imports `goals`, `landing`, `fleet`, `doors` (A2A, ACP), `terminal` and what is below. Nothing
is decided here about orders: handlers call `fleet.client`, `landing` and `goals`.
"""
