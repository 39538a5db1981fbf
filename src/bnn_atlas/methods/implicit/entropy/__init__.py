"""The entropy of a generator's weights, from 1/2 log det(J'J + sigma^2 I) in four forms."""
