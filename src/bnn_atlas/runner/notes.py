"""What a reader of a run's statistics has to know, as an attribute of its trace."""

from typing import Any

from bnn_atlas.config.methods.base import MethodSettings
from bnn_atlas.config.methods.implicit import ImplicitConfig
from bnn_atlas.posterior.density import Posterior
from bnn_atlas.traces.draws import NOTES


def noted(config: MethodSettings, posterior: Posterior, rows: int) -> dict[str, Any]:
    """The attribute with notes by the names of statistics, for a number of rows; empty for most methods."""
    if not isinstance(config, ImplicitConfig):
        return {}
    # Other methods do not wait for the import.
    from bnn_atlas.methods.implicit.objective import notes_of

    return {NOTES: notes_of(config, posterior, rows)}
