"""The typed messages that agents of one repository leave for each other (seed 003)."""
