"""Settings of alignments: the draws of a run with their units in one order."""

from typing import Any, Literal

from pydantic import Field

from bnn_atlas.config.language.base import Count, Model, Seed
from bnn_atlas.config.parts.posterior import ModelConfig

OWN_REFERENCES = ("first", "last", "mean", "barycentre")
"""References that are not the name of another alignment."""


class AlignmentConfig(Model):
    """A common frame for the draws of a run, found by permutations of hidden units; nothing is sampled again.

    There are always two controls, too: the same draws with the units of each scrambled at random, and an alignment with
    one permutation for each chain.
    """

    run: str
    """A run of this study, or an entry with a grid (all its runs)."""
    criterion: Literal["weights", "cosine", "activations", "centred", "correlation"] = "weights"
    """What units are matched by. `weights`: all parameters that belong to a unit, by coordinate descent over the groups
    of units (git-re-basin); `cosine`: the cosine of incoming weights, for a single hidden layer; `activations`:
    activations as they are (Xiao et al. 2023 use these two); `centred`: activations minus their means; `correlation`:
    the correlation of activations."""
    rows: Count | None = 1000
    """Activations are computed at no more than this many of the rows that the posterior is conditioned on, evenly
    spread; null takes all."""
    reference: str = "barycentre"
    """What draws are matched to. `first`, `last`: that draw; `mean`: the mean of the draws as they are; `barycentre`:
    the mean of the aligned draws, iterated to a fixed point, never worse than one permutation per chain; else the name
    of another alignment of this study, to whose target each draw is matched."""
    frame: str | None = None
    """Another alignment of this study, whose frame the draws enter once they are aligned with each other: the mean of
    the aligned draws is matched to that frame's target, and the permutation found is applied to all draws. This is how
    Xiao et al. 2023 bring an ensemble into the frame of HMC."""
    passes: Count = 200
    """At most this many passes over the draws on the way to a barycentre. The first ten make nearly all of the gain;
    draws that have few features in common can take hundreds."""
    unit: Literal["draw", "chain"] = "draw"
    """What gets a permutation of its own. If each chain is a fit with a mean, `chain` matches these means, and the mean
    and standard deviation of each fit are brought into the frame, too."""
    dead_inputs: Literal["kept", "masked"] = "kept"
    """Whether weights of inputs that never vary in these rows count; only for networks whose first layer is dense."""
    balanced: bool = False
    """Whether units of relu are first scaled so that incoming and outgoing weights have equal norms, which leaves the
    function as it is."""
    signs: bool = False
    """Whether signs of tanh units are matched as well."""
    rank: Count = 20
    """Rank of the factor in which the covariance of the aligned draws is kept; exact if it is at least the number of
    draws minus one."""
    chains: Count | None = None
    """Use only this many chains, the first ones; null takes all."""
    draws: Count | None = None
    """At most this many draws of each chain, evenly spread; null takes all."""
    pairs: Count = 50
    """Number of pairs of draws within chains, and of pairs across chains, that are also matched to each other
    directly."""
    seed: Seed = 0
    """Seed of the scrambled control and of the pairs."""

    @property
    def own_reference(self) -> bool:
        """Whether draws are matched to one of themselves or to their mean."""
        return self.reference in OWN_REFERENCES

    @property
    def other(self) -> str | None:
        """The other alignment whose frame is taken over or entered."""
        return self.frame if self.own_reference else self.reference


class AlignmentEntry(AlignmentConfig):
    """An alignment as written in a study's file, with what the smaller scales change."""

    scales: dict[Literal["laptop", "demo"], dict[str, Any] | None] = Field(default_factory=dict)
    """Scale -> fields that it replaces, each as a whole. Empty braces: made unchanged; null: not made; left out: the
    study's `scales` decide."""


def unsuited(config: AlignmentConfig, model: ModelConfig, chains: int, draws: int) -> tuple[str, str] | None:
    """Field of an alignment that a network, or `chains` chains of `draws` draws, cannot have, and why; else None."""
    hidden = getattr(model, "hidden", None)
    if hidden == ():
        return "run", "its network has no hidden units to permute"
    if config.chains is not None and config.chains > chains:
        return "chains", f"the run has {chains}"
    if (count := (config.chains or chains) * draws) < 2:
        return "run", f"it has {count} draw in all, and an alignment needs two: raise its chains or draws"
    if config.frame is not None and not config.own_reference:
        return "frame", f"'{config.reference}' already gives the frame: leave one of the two out"
    if config.dead_inputs == "masked" and config.criterion not in ("weights", "cosine"):
        return "dead_inputs", "activations do not see inputs that never vary: use 'kept', or match by weights"
    if config.criterion == "cosine" and (hidden is None or len(hidden) != 1):
        return "criterion", f"it matches one hidden layer, and the network is '{model.label}': use 'weights'"
    if config.dead_inputs == "masked" and hidden is None:
        return "dead_inputs", f"the first layer of '{model.label}' does not take inputs one by one: use 'kept'"
    if config.signs and not _free(model, "tanh"):
        return "signs", f"units of tanh have signs, and the network is '{model.label}': leave this out"
    if config.balanced and not _free(model, "relu"):
        return "balanced", f"units of relu have scales, and the network is '{model.label}': leave this out"
    return None


def _free(model: ModelConfig, activation: str) -> bool:
    """Whether the units of a network of this activation have a freedom that others lack."""
    if model.kind == "cnn_lstm":  # the entries of its embedding have both
        return True
    if model.kind in ("resnet_frn", "wide_resnet_frn"):
        return False
    return getattr(model, "activation", "relu") in (activation, "identity")
