"""Any agent for editors and SDKs that speak Codex's app-server protocol."""
