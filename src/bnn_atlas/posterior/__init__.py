"""Priors, likelihoods and the posterior density over the flat parameter vector."""
