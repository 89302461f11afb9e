"""A sandbox for each program that a tool or a driver starts, enforced by the kernel; this process itself stays outside.

`start.py` has the one function that starts a program confined as a `session.Confinement` says; `methods.py` finds out
what this machine supports.
"""
