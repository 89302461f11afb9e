"""Public helpers for testing agents without a paid model or a network: scripted models over HTTP, faulty peers.

For tests only: nothing in the product imports it.
"""
