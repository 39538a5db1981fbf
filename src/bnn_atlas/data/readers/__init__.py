"""Readers of raw files of images, sequences and labels."""
