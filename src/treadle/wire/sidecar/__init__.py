"""The sidecar protocol: a control plane's orders, an agent's events, and the receipt at the end (seed 004)."""
