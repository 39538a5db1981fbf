"""Weights of the prior and of the entropy in an objective.

Maximised is (log-likelihood + w_p log-prior) / T + w_H H. Divided by w_H, which moves no maximum, it is the evidence
lower bound of a posterior with the likelihood to the power 1 / w_H and the prior to the power w_p / w_H; a normal prior
of standard deviation s has the standard deviation s sqrt(w_H / w_p) there.
"""

from typing import NamedTuple

from bnn_atlas.config.methods.implicit import ImplicitConfig
from bnn_atlas.config.posterior import CategoricalLikelihood
from bnn_atlas.posterior.density import Posterior

PRIOR_OF_CLASSES, PRIOR_OF_REGRESSION = 8.5e-4, 0.1
"""Weights of the log prior in the published losses, for classes times the rows of a batch."""


class TermWeights(NamedTuple):
    """w_p and w_H."""

    prior: float
    entropy: float

    @property
    def likelihood_power(self) -> float:
        """Power of the likelihood in the posterior whose evidence lower bound this is."""
        return 1 / self.entropy if self.entropy else float("inf")

    @property
    def prior_scale(self) -> float:
        """Factor on the standard deviation of a normal prior in that posterior."""
        return (self.entropy / self.prior) ** 0.5 if self.prior else float("inf")

    def words(self, rows: int, temperature: float = 1.0) -> str:
        """The evidence lower bound that the objective equals, for a posterior of this many rows and a temperature.

        A temperature T divides likelihood and prior, which is what T times the weight of the entropy does.
        """
        if temperature != 1:
            return TermWeights(self.prior, temperature * self.entropy).words(rows)
        if self == ELBO:
            return "the evidence lower bound"
        if not self.entropy:
            return "no evidence lower bound: the entropy has no weight"
        power = self.likelihood_power
        prior = f"the prior's sd times {self.prior_scale:.3g} if normal" if self.prior else "a flat prior"
        return (
            f"the evidence lower bound of the likelihood to the power {power:.4g} ({power * rows:,.0f} rows), {prior}"
        )


ELBO = TermWeights(1.0, 1.0)


def weights_of(config: ImplicitConfig, posterior: Posterior, rows: int) -> TermWeights:
    """Weights of the objective of the settings, for a posterior of N = `rows` rows and mini-batches of m.

    The published loss for classes is the mean cross-entropy of m rows - w_H H - 8.5e-4 / m log p(theta), with w_H =
    1 / m^2 in October 2023 and 1 / m in December; times N these are N / m^2, N / m and 8.5e-4 N / m. The one for
    regressions is the sum over all rows, with the weights 1 and 0.1 at both dates.
    """
    if config.objective == "elbo":
        return TermWeights(config.prior_weight, config.entropy_weight)
    if not isinstance(posterior.likelihood, CategoricalLikelihood):
        return TermWeights(PRIOR_OF_REGRESSION, 1.0)
    batch = config.batch_size or rows
    entropy = rows / batch**2 if config.objective == "published_2023_10" else rows / batch
    return TermWeights(PRIOR_OF_CLASSES * rows / batch, entropy)
