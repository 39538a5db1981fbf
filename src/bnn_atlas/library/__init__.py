"""The public functions of this package: build the posterior of a network, sample it, predict and score.

What they need is imported on the first call, because JAX must not be imported before `configure`.
"""
