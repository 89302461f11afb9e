"""One order, one run: any agent or sidecar, its workspace, what is observed, and the receipt."""
