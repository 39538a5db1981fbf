"""When chains end before their last draw."""

from bnn_atlas.config.base import Model
from bnn_atlas.config.fields import Fraction


class StoppingConfig(Model):
    """A block of chains ends with the first draw by which every chain's E-value has reached 1 / alpha.

    The E-value says how much better than the chain's own warm start its draws so far have predicted the validation rows
    (`bnn_atlas.metrics.formulas.e_values`). A block with a chain that never gets there takes all draws.
    """

    alpha: Fraction = 0.01
    """A chain ever gets there with at most this probability if its draws predict no better than its warm start, in the
    sense that the expected likelihood ratio of a draw on these rows is at most 1, given the draws before."""
