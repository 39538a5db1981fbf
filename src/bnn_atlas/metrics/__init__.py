"""Scores, calibration and convergence of a pool of draws, and the tables that hold them.

`formulas`: arrays in, numbers out. `gathering`: the inputs of the formulas, streamed from the draws and from the files
stored next to the draws. `tables`: the files of measured values. `judgement`: scores of one run, and whether the run
can be trusted. Imports point from judgement to gathering to formulas to tables.
"""
