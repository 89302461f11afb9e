"""Work for agents as orders: the control plane, its receipts, and what runs many of them."""
