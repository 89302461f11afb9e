"""Protocols as pure functions and state, one folder each. No I/O.

Sockets, files and clocks belong to `io` and to the one who holds a connection.
"""
