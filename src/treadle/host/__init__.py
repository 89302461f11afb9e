"""One order, one run, with any agent or sidecar: its workspace, what is observed, and the receipt.

Many orders, queues and other machines are in `fleet`.
"""
