"""What is allowed: one pattern dialect, rules, modes. Pure."""
