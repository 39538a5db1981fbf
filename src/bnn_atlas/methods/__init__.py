"""Methods: Markov chains, variational approximations and optimised networks, all with one contract."""
