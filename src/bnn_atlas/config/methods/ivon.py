"""Settings of the improved variational online Newton method."""

from typing import Literal

from bnn_atlas.config.fields import Count, Given, Positive, Share
from bnn_atlas.config.methods.base import ChainSettings, KindOfDraws


class IVONConfig(ChainSettings):
    """Improved variational online Newton: a normal with independent parameters, at about the cost of Adam.

    Shen et al. 2024 (Variational Learning is Effective for Large Deep Networks), Algorithm 1. It fits what mean-field
    variational inference fits, by natural gradients of the mean and of the precision: the mean takes preconditioned
    steps with momentum, the precision follows an estimate of the Hessian. The weight decay of the paper is that of the
    prior, which has to be normal. Each chain is a fit of its own from its own warm start; its draws are independent
    draws from q.
    """

    title = "IVON"
    kind_of_draws = KindOfDraws.INDEPENDENT
    family = "approximation"
    variant = 5
    builder = "bnn_atlas.methods.ivon:build_ivon"
    centre = "mean"

    kind: Literal["ivon"] = "ivon"
    epochs: Count = 200
    batch_size: Count | None = 80
    """Rows per mini-batch; null for the full data."""
    samples: Count = 1
    """Draws from q per step, shared by the rows of a mini-batch."""
    learning_rate: Positive = 0.1
    """Of the mean, for a loss that is a mean over rows: 0.1 to 0.5 for networks from scratch, as for SGD. Times
    `hessian_init` it is the share of a Newton step that a step takes, which has to be below 1."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """Whether the learning rate stays, or falls to 0 along half a cosine over all steps."""
    momentum: Share = 0.9
    """Of the gradient (beta_1)."""
    hessian_momentum: Share = 0.99999
    """Of the Hessian of the mean loss (beta_2): the estimate has a memory of 1 / (1 - beta_2) steps, which should not
    be longer than the fit."""
    hessian_init: Positive = 0.1
    """The Hessian at the start. A parameter's standard deviation is then (rows (hessian_init + weight decay) / T)^-1/2;
    too small a value lets the first draws stray far from the mean."""
    clip: Given = None
    """Largest size of one parameter's step before the learning rate; null for none."""
    steps: Count = 100
    """Draws from q."""
