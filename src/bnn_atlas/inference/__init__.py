"""Build a posterior with its data from files and settings; its predictions, and the fingerprint of its draws."""
