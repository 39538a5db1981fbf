"""Judgements as a Parquet table, from which pages, console output and figures are made."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from bnn_atlas.claims.texts import Numbers, here, published
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
        ("at_infinity", pa.float64()),
        ("infinity_error", pa.float64()),
        ("trust", pa.string()),
    ]
)
TEXT = (
    "study", "claim", "paper", "read_in", "place", "statement", "metric", "relation", "basis", "figure", "finding",
    "step",
)  # fmt: skip
NUMBERS = (
    "paper_value", "paper_error", "size", "d", "error", "value", "sd", "standard_error", "compared_with", "difference",
    "difference_sd", "difference_standard_error", "monte_carlo_error", "at_infinity",
    "infinity_error",
)  # fmt: skip
CAUSE = tuple(Cause.model_fields)
WORDS = (
    "scale", "identity", "verdict", "reason", "needed", "paper_text", "here", "trust", "over", "difference_over",
    "erratum", *CAUSE,
)  # fmt: skip
SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in TEXT),
        *(pa.field(name, pa.float64()) for name in NUMBERS),
        *(pa.field(name, pa.bool_(), nullable=False) for name in ("compares", "read_off")),
        pa.field("repetitions", pa.int64()),
        *(pa.field(name, pa.string(), nullable=False) for name in WORDS),
        pa.field("reductions", pa.list_(pa.string()), nullable=False),
        pa.field("rows", pa.list_(ROW), nullable=False),
    ]
)
"""One row per claim. `d` is compared with `size` (for `at_least` and `at_most`: with the bound); `error` is the
standard error of d, including the errors of the published number. `here` and `paper_text` are the measured and the
published number as text. `compares`: whether the claim is about the difference of two values. `value`, `sd`,
`standard_error` and `repetitions` belong to the claim itself, `compared_with` and `difference` to a comparison; all are
empty if runs are missing. `at_infinity` is the value, or the difference, at infinitely many draws, and `infinity_error`
its standard error. `reductions` lists
the reductions that affect the claim, as `entry: field: paper value -> value here`. `trust` is the worst trust of the
runs. `over` and `difference_over` name what the standard errors are over. `rows` are the rows of the metric tables that
answered the claim, with the number of `excluded` chains in each row."""


def write_claims(path: str | Path, judgements: Sequence[Judgement], tables: Mapping[str, pd.DataFrame | None]) -> None:
    """Write one row per claim, in order; the same judgements give the same bytes.

    Placeholders in texts (`texts.PLACE`) are filled from the judgements and the metric table of each study.
    """
    numbers = {
        study: Numbers({one.name: here(one) for one in judgements if one.study.name == study}, tables.get(study))
        for study in dict.fromkeys(one.study.name for one in judgements)
    }
    rows = [_row(judged, numbers[judged.study.name]) for judged in judgements]
    with parquet_writer(path, SCHEMA) as writer:
        writer.write_table(pa.Table.from_pylist(rows, SCHEMA))


def _at_infinity(judged: Judgement) -> float | None:
    """Standard error at infinitely many draws; None without such a value, or if the error of the value is not known."""
    found = judged.measured
    if found is None or found.at_infinity is None or judged.error is None:
        return None
    return math.hypot(judged.error, judged.extrapolation_error)


def _row(judged: Judgement, numbers: Numbers) -> dict[str, Any]:
    claim, own, difference, measured = judged.claim, judged.own, judged.difference, judged.measured
    given = claim.published
    texts = {name: getattr(claim, name) for name in ("statement", "erratum")}
    texts |= {name: getattr(claim.cause, name) if claim.cause else None for name in CAUSE}
    return {
        "study": judged.study.name,
        "claim": judged.name,
        "paper": judged.paper,
        **{name: getattr(claim, name) or "" for name in ("read_in", "place", "basis", "figure", "finding", "step")},
        **{name: numbers.filled(text or "", judged) for name, text in texts.items()},
        "metric": claim.measures,
        "relation": claim.relation,
        "paper_value": given and given.value,
        "paper_error": given and given.error,
        "read_off": given is not None and given.reading is not None,
        "size": claim.bound if claim.bound is not None else claim.size or 0.0,
        "d": judged.d,
        "error": judged.error,
        "compares": claim.than is not None,
        "value": own and own.value,
        "sd": own and own.sd,
        "standard_error": own and own.standard_error,
        "compared_with": judged.other and judged.other.value,
        "difference": difference and difference.value,
        "difference_sd": difference and difference.sd,
        "difference_standard_error": difference and difference.standard_error,
        "monte_carlo_error": own and own.monte_carlo_error,
        "at_infinity": measured and measured.at_infinity,
        "infinity_error": _at_infinity(judged),
        "trust": judged.trust.words if judged.trust else "",
        "over": own.over if own else "",
        "difference_over": difference.over if difference else "",
        "repetitions": own and own.repetitions,
        "scale": judged.study.scale,
        "identity": judged.identity,
        "verdict": str(judged.verdict),
        "reason": numbers.filled(judged.reason, judged),
        "needed": judged.needed,
        "paper_text": published(judged),
        "here": here(judged) if judged.measured else "",
        "reductions": [f"{entry}: {text}" for entry, texts in judged.reductions.items() for text in texts],
        "rows": [{"side": side, **row._asdict()} for side, rows in judged.rows.items() for row in rows],
    }
