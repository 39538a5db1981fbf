"""One page per run that shows a reader whether to trust it."""

from bnn_atlas.figures.diagnostics.page import diagnostics_page
from bnn_atlas.figures.diagnostics.run import RunFiles

__all__ = ["RunFiles", "diagnostics_page"]
