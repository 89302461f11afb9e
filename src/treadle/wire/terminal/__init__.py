"""The terminal supervisor's protocol: binary frames on a Unix socket (seed 001)."""
