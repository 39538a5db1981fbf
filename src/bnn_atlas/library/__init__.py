"""The public functions of this package: build the posterior of a network, sample it, predict and score.

Other modules are imported on the first call of a function, because JAX must not be imported before `configure`.
"""
