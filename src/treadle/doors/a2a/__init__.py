"""Any agent for others that speak the Agent2Agent protocol."""
