"""Agents offered on wires: one folder per protocol.

A door is given an agent and knows no driver; what the bytes mean is in `wire`.
"""
