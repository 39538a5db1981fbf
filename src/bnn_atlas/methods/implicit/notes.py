"""What a reader of the statistics of an implicit run has to know."""

from bnn_atlas.config.methods.implicit import ExactEntropy, ImplicitConfig
from bnn_atlas.methods.implicit.family import build_family
from bnn_atlas.methods.implicit.terms import weights_of
from bnn_atlas.posterior.density import Posterior


def notes_of(config: ImplicitConfig, posterior: Posterior, rows: int) -> dict[str, str]:
    """Name of a statistic -> form of its entropy, and the bound that the objective equals, for a number of rows.

    Raises ValueError as `build_family`.
    """
    scoring = config.scoring(build_family(config, posterior).noise)
    scored, trained = (f"entropy: {form.words}" for form in (scoring, config.entropy))
    lower = scored if isinstance(scoring, ExactEntropy) else f"{scored}, lower end of the bracket"
    of_draws = "of the draws alone" if not isinstance(config.entropy, ExactEntropy) else ""
    return {
        "entropy": scored,
        "entropy_error": scored,
        "entropy_bracket": scored,
        "elbo": lower,
        "entropy_as_trained": trained,
        "objective": f"{trained}; {weights_of(config, posterior, rows).words(rows, posterior.temperature)}",
        **({"singular": of_draws} if of_draws else {}),
    }
