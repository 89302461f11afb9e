"""The fleet and the terminals over HTTP: for scripts as REST and server-sent events, for the page over one WebSocket.

site       what all handlers of requests share
fleet_link the connection to the fleet of this machine
envelope   errors and answers as JSON
tokens     who may do what: devices, one-time links
gate       every request passes it: host, origin, token, sizes, rates, headers
calls      the table of what can be called, and how a call becomes a function call
openapi    the same table as a document
feed       both streams of the engine, read once for all watchers
board      which orders need a person, work, wait or are done
socket     one connection per tab: topics, each with a position to continue from
listening  where it listens, by which names, with which certificate
serve      the server that joins all of this
"""
