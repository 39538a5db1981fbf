"""From files and settings to a posterior with its data, its predictions, and the fingerprint of its draws."""
