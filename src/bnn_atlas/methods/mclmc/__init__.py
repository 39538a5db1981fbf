"""Microcanonical Langevin dynamics without a Metropolis test, and its two ways of tuning."""
