"""Processes: starting them, watching them, and ending whole trees of them."""
