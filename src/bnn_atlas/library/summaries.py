"""Whether draws can be trusted: convergence of functions and parameters, judged as in the pipeline's tables."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bnn_atlas.library.posteriors import NetworkPosterior, rows_like
from bnn_atlas.library.predictions import check_draws, facts_of, predict
from bnn_atlas.traces.draws import Draws, evenly

if TYPE_CHECKING:
    import pandas

    from bnn_atlas.metrics.gathering.summary import PredictiveSummary

ROWS = 64
"""Largest number of rows at which functions are judged, and of parameters where there are no functions."""
COLUMNS = {"rhat": "max", "ess_bulk": "min", "ess_tail": "min"}


class DrawsSummary(NamedTuple):
    """Convergence of draws in numbers, and whether to trust them in words."""

    verdict: str
    """`fine`, `look closer`, `do not trust` or `cannot be judged`, by the rule of docs/verdicts.md; `no chain` for
    single points, such as the members of a deep ensemble."""
    reasons: tuple[str, ...]
    """What each check found, with its limits; the most serious first."""
    table: "pandas.DataFrame"
    """Largest R-hat, and smallest bulk and tail effective sample size, of the functions, the log posterior and each
    array of parameters; NaN where they are not defined."""
    divergences: int | None
    """Divergent steps of all chains; None if the method does not count them."""
    draws: str
    """Numbers of chains, draws and parameters."""

    def __repr__(self) -> str:
        """The verdict, the checks and the table."""
        shown = self.table.to_string(float_format=lambda value: f"{value:,.4g}", na_rep="-")
        return "\n".join([f"{self.draws}: {self.verdict}", *(f"  {text}" for text in self.reasons), "", shown])


def summarise(posterior: NetworkPosterior | None, draws: Draws, x: Any = None) -> DrawsSummary:
    """The summary of draws, with functions judged at the rows x [n, ...]; see `PosteriorDraws.summary`."""
    import pandas as pd

    from bnn_atlas.config.language.base import plural
    from bnn_atlas.config.methods.registry import method
    from bnn_atlas.config.parts.priors import standard_deviation
    from bnn_atlas.config.parts.user import UserPosteriorConfig
    from bnn_atlas.metrics.judgement import evaluate
    from bnn_atlas.metrics.judgement.checks import BY_WEIGHT, FUNCTIONS, Status, checks
    from bnn_atlas.metrics.judgement.rows import as_rows
    from bnn_atlas.metrics.judgement.trust import NO_CHAIN, reference_measurement, trust
    from bnn_atlas.metrics.tables.measurement import Measurement, Row
    from bnn_atlas.symmetry.permutation import rescalings

    facts, rows, trained_on = facts_of(posterior, draws), np.zeros(0), None
    if posterior is not None:
        check_draws(posterior, draws)
        facts = facts._replace(prior_sd=standard_deviation(posterior.config.prior))
        if not isinstance(posterior.config, UserPosteriorConfig):
            facts = facts._replace(rescalings=rescalings(posterior.config.model, draws.layout))
        rows, trained_on = np.asarray(posterior.rows[0]), len(posterior.rows[1])
        rows = rows if x is None else rows_like(posterior, x)
    if posterior is not None and len(rows):
        judged, first = FUNCTIONS, f"functions at {plural(min(ROWS, len(rows)), 'row')}"
        predicted = predict(posterior, draws, rows[evenly(len(rows), ROWS)])
    else:
        judged, first = "parameters", f"{plural(min(ROWS, draws.size), 'parameter')}, evenly chosen"
        predicted = _parameters_as_functions(draws)
    found = evaluate.diagnose(draws, predicted, facts)
    measured = [*found.functions_and_weights, *found.sampling]
    if trained_on is not None:
        measured.append(Measurement("rows_train", float(trained_on)))
    if are_chains := method(facts.identity.method).kind_of_draws.are_chain:
        measured.append(reference_measurement(measured))
    table = pd.DataFrame(as_rows(facts.identity, measured, predicted), columns=list(Row._fields))
    trusted = trust(table)
    reasons: tuple[str, ...] = (trusted.text,)
    if are_chains:
        order = (*BY_WEIGHT, Status.FINE)
        by_weight = sorted(checks(table, judged), key=lambda check: order.index(check.status))
        reasons = tuple(f"{check.status.value}: {check.text}" for check in by_weight)
    values = {one.metric: one.value for one in measured}
    steps = values.get("divergences", float("nan"))
    parameters = found.parameters.assign(array=[name.partition("[")[0] for name in found.parameters["name"]])
    parts = {first: found.functions, "log posterior": None}
    parts |= {str(name): part for name, part in parameters.groupby("array", sort=False)}
    lines = {
        name: {
            "numbers": 1 if part is None else len(part),
            **(
                {"rhat": values.get("rhat_log_posterior")}
                | {f"ess_{kind}": values.get(f"ess_{kind}_log_posterior") for kind in ("bulk", "tail")}
                if part is None
                else {column: getattr(part[column], extreme)() for column, extreme in COLUMNS.items()}
            ),
        }
        for name, part in parts.items()
    }
    return DrawsSummary(
        "no chain" if trusted.text == NO_CHAIN else trusted.status.value,
        reasons,
        pd.DataFrame.from_dict(lines, orient="index"),
        None if np.isnan(steps) else int(steps),
        f"{plural(draws.chains, 'chain')} of {plural(draws.draws, 'draw')}, {plural(draws.size, 'parameter')}",
    )


def _parameters_as_functions(draws: Draws) -> "PredictiveSummary":
    """The parameters in the place of function values."""
    from bnn_atlas.metrics.gathering.summary import PredictiveSummary

    chosen = evenly(draws.size, ROWS)
    values = draws.read(parameters=chosen)
    stuck = (values == values[:, :1]).all(axis=(1, 2)) & (draws.draws > 1)
    divergent = stuck | ~np.isfinite(values).all(axis=(1, 2))
    return PredictiveSummary(
        draws.draws, divergent, stuck, np.array([draws.draws]), values, chosen, np.full(len(chosen), -1)
    )
