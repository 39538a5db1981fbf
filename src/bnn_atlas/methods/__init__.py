"""Methods: Markov chains, variational approximations and optimised networks, one contract for all of them."""
