"""Networks and the layout of their parameters in one flat vector."""
