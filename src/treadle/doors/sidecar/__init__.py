"""An agent offered as a sidecar."""
