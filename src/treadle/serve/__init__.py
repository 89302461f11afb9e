"""The fleet and the terminals over HTTP: for scripts as REST and server-sent events, for the page over one WebSocket.

site       what all handlers of requests share
fleet_link the connection to the fleet of this machine
envelope   errors and answers as JSON
tokens     who may do what: devices, one-time links
gate       every request passes it: host, origin, token, sizes, rates, headers
listening  where it listens, by which names, with which certificate
server     the server that joins all of this; `background` runs it as a process of its own

api        what can be called: one table (`calls`), its handlers, and the same table as an OpenAPI document
live       what watchers follow: both streams of the engine, read once for all of them
notify     notices to phones, browsers and other programs
web        the page itself

Nothing here decides about orders: handlers call `treadle.fleet.client`.
"""
