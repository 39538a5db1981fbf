"""Figures, drawn from tables and traces alone.

A kind of figure is a function that takes the runs to show and returns a drawing, a picture with its numbers. Its module
is in `kinds` or, where only one paper has it, in the folder of that study, and says what the kind needs (`KIND`, or
`KINDS` for several). The other modules are the frame of all pictures (`page`), which writes them and marks runs that
should not be trusted; what kinds share (`style`, `axes`, `scores`, `subsets`, `functions`, ...); the bridge to R
(`ggplot`); LaTeX tables (`latex`); and the `diagnostics` page of a run. `shown` is what a kind gets to see, and
`drawing` is where the workflow enters.
"""
