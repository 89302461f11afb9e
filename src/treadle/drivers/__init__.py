"""Outside agents driven as sessions: one folder per program or protocol.

What is the same for all agents is in `sessions`; what is offered to others is in `doors`.
"""
