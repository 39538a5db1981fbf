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
from bnn_atlas.claims.rules import Verdict
from bnn_atlas.claims.sides import Repetition
from bnn_atlas.claims.texts import here, published
from bnn_atlas.claims.verdict import Judgement
from bnn_atlas.files import atomic
from bnn_atlas.metrics.judgement.checks import Status
from bnn_atlas.metrics.judgement.trust import UNCONVERGED, reference_word
from bnn_atlas.provenance import Provenance

THUMBNAIL = 520
"""Width of the pictures in the page, in pixels."""
CLASSES = {
    Verdict.AGREES: "reproduced",
    Verdict.HOLDS: "reproduced",
    Verdict.SMALLER: "reduced",
    Verdict.DIFFERS: "failed",
    Verdict.DOES_NOT_HOLD: "failed",
    Verdict.CANNOT_TELL: "not-tested",
    Verdict.CANNOT_SHOW: "not-tested",
    Verdict.ERRATUM: "reproduced",
    Verdict.TO_RUN: "not-run",
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


def limit_text(relation: str, size: float | None) -> str:
    """What was asked of a claim: its relation and the size that matters, or its bound."""
    return f"{relation.replace('_', ' ')}, {number(size or 0.0, decimals(size))}"


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
    claim, own = judged.claim, judged.own
    digits = 4
    return {
        "name": judged.name,
        "section": claim.place or "own question",
        "statement": claim.statement,
        "metric": claim.measures,
        "trust": judged.trust,
        "trust_class": TRUST_CLASSES[judged.trust.status] if judged.trust else "",
        "paper": claim.paper,
        "paper_value": published(judged),
        "limit": limit_text(claim.relation, claim.size if claim.bound is None else claim.bound),
        "basis": claim.basis,
        "value": own and here(judged),
        "other": judged.other and number(judged.other.value),
        "difference": judged.difference and here(judged),
        "spread": f"standard error over {' and '.join(part.of for part in judged.parts)}" if judged.parts else "",
        "margin": None,
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


def decimals(value: float | None) -> int:
    """Decimals of a number as written in a configuration file."""
    return 0 if value is None else len(f"{value:.10f}".rstrip("0").partition(".")[2])
