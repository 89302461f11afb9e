"""The work of finished orders, for those who judge it: its patch and commits, comments on its lines, several compared.

How work gets onto a branch is in `landing`.
"""
