"""Judgements as one self-contained HTML page."""

import base64
import io
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
from PIL import Image

from bnn_atlas.claims.answer import EXCLUDED_SHARE
from bnn_atlas.claims.estimate import PAIRED_ROWS, Estimate
from bnn_atlas.claims.sides import Repetition
from bnn_atlas.claims.verdict import Judgement, Verdict
from bnn_atlas.config.claims.claim import Claim
from bnn_atlas.files import atomic
from bnn_atlas.metrics.judgement.checks import Status
from bnn_atlas.metrics.judgement.trust import UNCONVERGED, reference_word
from bnn_atlas.provenance import Provenance

THUMBNAIL = 520
"""Width of the pictures in the page, in pixels."""
CLASSES = {
    Verdict.REPRODUCED: "reproduced",
    Verdict.REDUCED: "reduced",
    Verdict.FAILED: "failed",
    Verdict.NOT_TESTED: "not-tested",
    Verdict.NOT_RUN: "not-run",
}
"""Verdict -> class in the page's style sheet."""
TRUST_CLASSES = {
    Status.FINE: "fine",
    Status.LOOK: "look",
    Status.DISTRUST: "distrust",
    Status.UNKNOWN: "unknown",
}
"""Trust of the runs -> class in the page's style sheet."""


def write_page(
    path: str | Path, judgements: Sequence[Judgement], figures: Mapping[str, str | Path], provenance: Provenance
) -> None:
    """Write the page; `figures` has the PNG of each figure that was made, by `study/figure`.

    The page embeds small copies of the pictures, with relative links to the files. It loads nothing, and the same
    judgements and figures give the same bytes.
    """
    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    text = environment.get_template("page.html.j2").render(
        scale=provenance.settings.get("scale", ""),
        studies=[_study(list(group), figures) for _, group in groupby(judgements, key=lambda j: j.study.name)],
        verdicts=_counts(judgements),
        excluded_share=f"{100 * EXCLUDED_SHARE:g}",
        provenance=provenance,
    )
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def number(value: float | None, digits: int = 4) -> str:
    """A number with `digits` decimals and a real minus sign; a dash for None."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def limit(claim: Claim, bound: float | None) -> str:
    """The limit on the value, or on the difference, in words; `bound` is the judgement's."""
    return limit_text(claim.relation, claim.tolerance, bound, claim.than is not None)


def limit_text(relation: str, tolerance: float | None, bound: float | None, compares: bool) -> str:
    """The limit of a claim with these fields; `compares` if the claim is about a difference of two values."""
    text = number(bound or 0.0, decimals(bound))
    match relation:
        case "equals":
            near = f"within {number(tolerance, decimals(tolerance))} of it"
            return f"difference {near}" if compares else near
        case "less_than":
            return f"difference below {number(0.0 - (bound or 0.0), decimals(bound))}"
        case "greater_than":
            return f"difference above {text}"
        case "changes_less_than":
            return f"difference within ± {text}"
        case _:
            words = f"{relation.replace('_', ' ')} {text}"
            return f"difference {words}" if compares else words


def thumbnail(path: str | Path) -> str:
    """A small copy of a PNG as a data URI."""
    with Image.open(path) as picture:
        small = picture.convert("RGB")
        small.thumbnail((THUMBNAIL, 4 * THUMBNAIL), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.quantize(64).save(buffer, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def _counts(judgements: Sequence[Judgement]) -> list[dict[str, Any]]:
    """The number of claims with each verdict."""
    return [
        {"text": str(verdict), "class": style, "count": sum(j.verdict == verdict for j in judgements)}
        for verdict, style in CLASSES.items()
    ]


def _study(judgements: Sequence[Judgement], figures: Mapping[str, str | Path]) -> dict[str, Any]:
    study = judgements[0].study
    named = dict.fromkeys(j.claim.figure for j in judgements if j.claim.figure)
    pictures = {name: Path(file) for name, file in figures.items() if Path(file).suffix == ".png"}
    made = [name for name in named if f"{study.name}/{name}" in pictures]
    return {
        "name": study.name,
        "title": study.title,
        "paper": study.claims.paper,
        "counts": [count for count in _counts(judgements) if count["count"]],
        "claims": [_claim(judged, made) for judged in judgements],
        "figures": [
            {
                "name": name,
                "link": f"figures/{study.name}/{name}.png",
                "data": thumbnail(pictures[f"{study.name}/{name}"]),
            }
            for name in made
        ],
    }


def _claim(judged: Judgement, made: Sequence[str]) -> dict[str, Any]:
    claim, own, compared = judged.claim, judged.own, judged.difference or judged.own
    digits = _digits(claim)
    error = compared.standard_error if compared else None
    return {
        "name": judged.name,
        "section": claim.section,
        "statement": claim.statement,
        "metric": claim.measures,
        "trust": judged.trust,
        "trust_class": TRUST_CLASSES[judged.trust.status] if judged.trust else "",
        "paper": claim.paper,
        "paper_value": number(claim.paper_value, max(map(decimals, _given(claim)), default=0)),
        "limit": limit(claim, judged.bound),
        "basis": claim.basis,
        "value": own and _with_spread(own, digits),
        "other": judged.other and _with_spread(judged.other, digits),
        "difference": judged.difference and _with_spread(judged.difference, digits),
        "spread": _difference_spread(judged.difference, digits) if judged.difference else own and _spread(own, digits),
        "margin": None if judged.margin is None else _margin(judged.margin, error),
        "verdict": str(judged.verdict),
        "class": CLASSES[judged.verdict],
        "reason": judged.reason,
        "needed": judged.needed,
        "scale": judged.study.scale,
        "reductions": judged.reductions,
        "excluded": _excluded([row for rows in judged.rows.values() for row in rows]),
        "reference": any(reference_word(row.note) for rows in judged.rows.values() for row in rows) and UNCONVERGED,
        "figure": claim.figure if claim.figure in made else None,
        "compares": len(judged.rows) > 1,
        "rows": [(side, row) for side, rows in judged.rows.items() for row in rows],
        "digits": digits,
    }


def _excluded(rows: Sequence[Repetition]) -> list[str]:
    """How many chains are excluded in which run and split, in words."""
    counts = {(row.run, row.split): (row.excluded, row.chains + row.excluded) for row in rows if row.excluded}
    return [f"{n:,} of {all_:,} chains of {run}, split {split} excluded" for (run, split), (n, all_) in counts.items()]


def _given(claim: Claim) -> list[float]:
    """The claim's own numbers."""
    return [value for value in (claim.paper_value, claim.bound, claim.tolerance) if value is not None]


def decimals(value: float | None) -> int:
    """Decimals of a number as written in a configuration file."""
    return 0 if value is None else len(f"{value:.10f}".rstrip("0").partition(".")[2])


def _digits(claim: Claim) -> int:
    """Decimals of measured values: as many as the claim's own numbers have, from 3 to 6."""
    return min(6, max([3, *map(decimals, _given(claim))]))


def _with_spread(estimate: Estimate, digits: int) -> str:
    spread = estimate.standard_error if estimate.sd is None else estimate.sd
    return number(estimate.value, digits) + ("" if spread is None else f" ± {number(spread, digits)}")


def _spread(estimate: Estimate, digits: int) -> str:
    """What the number after the ± of a value stands for, and its Monte Carlo error."""
    other = estimate.monte_carlo_error
    chains = "" if other is None else f"; Monte Carlo error {number(other, digits)}"
    if estimate.repetitions > 1:
        if estimate.sd is None:
            return f"mean of {estimate.repetitions} repetitions{chains}"
        return f"mean ± sd of {estimate.repetitions} repetitions{_error_over(estimate, digits)}{chains}"
    if estimate.standard_error is None:
        return f"one run, no standard error{chains}" if chains else "one run, no uncertainty"
    return f"one run ± standard error over {estimate.over}{chains}"


def _difference_spread(difference: Estimate, digits: int) -> str:
    """What the number after the ± of a difference stands for."""
    if difference.sd is not None:
        return f"mean ± sd of {difference.repetitions} paired differences{_error_over(difference, digits)}"
    if difference.over == PAIRED_ROWS:
        return "± standard error of the difference, paired over the test rows"
    if difference.standard_error is not None:
        return f"± standard error of two independent means over {difference.over}"
    return "no uncertainty of the difference"


def _error_over(estimate: Estimate, digits: int) -> str:
    if estimate.standard_error is None:
        return f"; standard error over {estimate.over} not known" if estimate.over else ""
    return f"; standard error {number(estimate.standard_error, digits)} over {estimate.over}"


def _margin(margin: float, error: float | None) -> str:
    """How far inside or outside the limit, also in standard errors."""
    in_errors = f", {abs(margin) / error:.2g} standard errors" if error else ""
    return f"{'inside' if margin >= 0 else 'outside'} the limit by {abs(margin):.2g}{in_errors}"
