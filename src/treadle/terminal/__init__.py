"""Keeps programs running in a pty. Any number of clients can watch them, type into them, query and end them.

What an agent's dialect says in a session of ours is in `drivers`; the protocol's bytes are in `wire/terminal`.
"""
