"""What is allowed: one pattern dialect, rules, modes. Pure.

It opens nothing and asks no one: who reads files for it hands them in, and the sandbox that enforces it is in `io`.
"""
