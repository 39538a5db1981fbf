"""Figures of the study of implicit variational inference."""
