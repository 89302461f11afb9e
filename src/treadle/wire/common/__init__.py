"""What every wire is made of: cutting lines, JSON in and out, tolerant reading, JSON-RPC, timestamps."""
