"""Scores, calibration and convergence of a pool of draws, and the tables that hold them."""
