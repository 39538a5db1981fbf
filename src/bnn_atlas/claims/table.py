"""Judgements as a Parquet table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bnn_atlas.claims.verdict import Judgement
from bnn_atlas.config.claims.claim import Cause
from bnn_atlas.files import parquet_writer

ROW = pa.struct(
    [
        ("side", pa.string()),
        ("run", pa.string()),
        ("split", pa.int64()),
        ("dataset", pa.string()),
        ("metric", pa.string()),
        ("chains", pa.int64()),
        ("excluded", pa.int64()),
        ("draws", pa.int64()),
        ("value", pa.float64()),
        ("standard_error", pa.float64()),
        ("note", pa.string()),
        ("at", pa.string()),
        ("over", pa.string()),
        ("monte_carlo_error", pa.float64()),
        ("trust", pa.string()),
    ]
)
TEXT = ("study", "claim", "paper", "source", "section", "statement", "metric", "relation", "basis", "figure")
NUMBERS = (
    "paper_value", "tolerance", "bound", "value", "sd", "standard_error", "compared_with", "difference",
    "difference_sd", "difference_standard_error", "margin", "monte_carlo_error",
)  # fmt: skip
CAUSE = tuple(Cause.model_fields)
WORDS = ("scale", "verdict", "reason", "needed", "trust", "over", "difference_over", *CAUSE)
SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in TEXT),
        *(pa.field(name, pa.float64()) for name in NUMBERS),
        pa.field("compares", pa.bool_(), nullable=False),
        pa.field("repetitions", pa.int64()),
        *(pa.field(name, pa.string(), nullable=False) for name in WORDS),
        pa.field("reductions", pa.list_(pa.string()), nullable=False),
        pa.field("rows", pa.list_(ROW), nullable=False),
    ]
)
"""One row per claim. `compares`: whether it is about the difference of two values. `basis`: where its limit comes from
(`tolerance` or `bound`, including allowed standard errors). `value`, `sd`, `standard_error` and `repetitions` belong to
the claim itself, `compared_with` and `difference` to a comparison; all are empty if runs are missing. `reductions` are
`entry: field: paper value -> value here`. `trust` is the worst trust of the runs. `over` and `difference_over` say what
the standard errors are over. `cause`, `decided_by` and `result` say why a claim is missed, if that has been decided.
`rows` are the rows of the metric tables that answered, with the number of `excluded` chains in each."""


def write_claims(path: str | Path, judgements: Sequence[Judgement]) -> None:
    """Write one row per claim, in order; the same judgements give the same bytes."""
    table = pa.Table.from_pylist([_row(judgement) for judgement in judgements], SCHEMA)
    with parquet_writer(path, SCHEMA) as writer:
        writer.write_table(table)


def _row(judged: Judgement) -> dict[str, Any]:
    claim, own, difference = judged.claim, judged.own, judged.difference
    return {
        "study": judged.study.name,
        "claim": judged.name,
        "paper": judged.paper,
        **{name: getattr(claim, name) for name in ("source", "section", "statement", "relation")},
        "metric": claim.measures,
        **{name: getattr(claim, name) for name in ("paper_value", "tolerance")},
        "bound": judged.bound,
        **{name: getattr(claim, name) or "" for name in ("basis", "figure")},
        "compares": claim.than is not None,
        "value": own and own.value,
        "sd": own and own.sd,
        "standard_error": own and own.standard_error,
        "compared_with": judged.other and judged.other.value,
        "difference": difference and difference.value,
        "difference_sd": difference and difference.sd,
        "difference_standard_error": difference and difference.standard_error,
        "margin": judged.margin,
        "monte_carlo_error": own and own.monte_carlo_error,
        "trust": judged.trust.words if judged.trust else "",
        "over": own.over if own else "",
        "difference_over": difference.over if difference else "",
        "repetitions": own and own.repetitions,
        "scale": judged.study.scale,
        "verdict": str(judged.verdict),
        "reason": judged.reason,
        "needed": judged.needed,
        **{name: getattr(claim.cause, name) if claim.cause else "" for name in CAUSE},
        "reductions": [f"{entry}: {text}" for entry, texts in judged.reductions.items() for text in texts],
        "rows": [{"side": side, **row._asdict()} for side, rows in judged.rows.items() for row in rows],
    }
