"""Stochastic-gradient Langevin and Hamiltonian dynamics."""
