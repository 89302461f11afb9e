"""How an order gets into a fleet: completed with the project's defaults, stored once, its repository sent along.

What an order is, is declared in `wire/fleet`; when it is placed is decided in `schedule`.
"""
