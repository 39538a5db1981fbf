"""Scores, calibration and convergence of a pool of draws, and the tables that hold them.

`formulas`: arrays in, numbers out. `gathering`: what the formulas need, streamed from the draws and the files next to
them. `tables`: the files of measured values. `judgement`: one run scored, and whether it can be trusted. Imports point
from judgement to gathering to formulas to tables.
"""
