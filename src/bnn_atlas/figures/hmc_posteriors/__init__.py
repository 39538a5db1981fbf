"""Kinds of figures that only the study of full-batch HMC has, one to a file of the kind's name."""
