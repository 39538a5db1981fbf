"""Figures of the study `sampling_perspective`, one function of the figure's name each."""
