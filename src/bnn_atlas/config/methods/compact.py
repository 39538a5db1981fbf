"""Settings of compact representations: Gaussians with the moments of the draws of another run."""

from typing import ClassVar, Literal

from bnn_atlas.config.fields import Count
from bnn_atlas.config.methods.base import KindOfDraws, MethodSettings


class CompactConfig(MethodSettings):
    """A Gaussian with mean and spread of the draws of another run, `start.run`; every chain is one draw of it.

    Without an alignment it is q_d of Xiao et al. 2023, with one it is q_r.
    """

    title = "compact"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "approximation"
    variant = 6
    builder = "bnn_atlas.methods.independent:build_compact"

    kind: Literal["compact"] = "compact"
    alignment: str | None = None
    """An alignment of this study, of that run: the moments are those of its aligned draws. Null takes the draws as they
    are."""
    form: Literal["diagonal", "low_rank", "mean"] = "diagonal"
    """`diagonal`: independent parameters; `low_rank`: their covariance, up to `rank` directions; `mean`: no spread."""
    rank: Count | None = None
    """`low_rank`: most directions, those of the largest variance, at most `rank` of the alignment; null takes all, one
    less than the number of draws."""
    source_chains: Count | None = None
    """Without an alignment, the first this many chains of that run count; null takes all. An alignment has `chains`."""
    checkpoint_every: ClassVar[int] = 1
