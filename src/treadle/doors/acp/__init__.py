"""Any agent for editors that speak the Agent Client Protocol."""
