"""Format measured numbers as text, and fill them into the placeholders of texts when a table or page is written."""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from bnn_atlas.claims.verdict import Judgement

PLACE = re.compile(r"\{(=[^{}]+|here|here_error)\}")
"""Placeholders. `{here}`, `{here_error}`: the value measured for the claim itself, and its error; `{=claim}`: the value
measured for another claim, with its error; `{=run/metric}`, `{=run/metric/at}`: a row of the study's metric table."""
MISSING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
MOST_DECIMALS = 7
SIGNIFICANT = 4
"""Significant digits of a number without an error."""


class Numbers(NamedTuple):
    """The numbers with which the placeholders of a study's texts can be filled."""

    claims: Mapping[str, str]
    """Claim -> its measured value as text (`here`)."""
    table: pd.DataFrame | None

    def filled(self, text: str, own: Judgement | None = None) -> str:
        """The text with its placeholders filled; an en dash replaces what was not measured.

        `own` is the claim to which the text belongs. Raises KeyError for an unknown claim or form of placeholder.
        """
        return PLACE.sub(lambda match: self._value(match[1], own), text)

    def _value(self, key: str, own: Judgement | None) -> str:
        if not key.startswith("="):
            if own is None:
                raise KeyError(f"{{{key}}} is the value of the text's own claim, but this text belongs to no claim")
            error = own.measured.error if own.measured else None
            return here(own) if key == "here" else number(error, error)
        name, *rest = key.removeprefix("=").split("/", 2)
        if not rest:
            if name not in self.claims:
                raise KeyError(f"{{{key}}}: no claim '{name}'")
            return self.claims[name] or MISSING
        return self._row(name, rest[0], rest[1] if len(rest) > 1 else "")

    def _row(self, run: str, metric: str, at: str) -> str:
        """Mean over splits of a metric of all chains and draws, with its standard error if there is only one split."""
        if self.table is None:
            return MISSING
        table = self.table
        rows = table[(table["run"] == run) & (table["metric"] == metric) & (table["at"] == at)]
        rows = rows[~rows["dataset"].str.contains("/")]
        rows = rows.sort_values(["chains", "draws"], kind="stable").groupby("split").tail(1)
        if rows.empty:
            return MISSING
        error = rows["standard_error"].iloc[0] if len(rows) == 1 else rows["value"].std() / len(rows) ** 0.5
        return spread(float(rows["value"].mean()), None if pd.isna(error) else float(error))


def here(judged: Judgement) -> str:
    """The measured value of a claim with its error (a difference with its sign); an en dash if nothing was measured."""
    measured = judged.measured
    if measured is None:
        return MISSING
    return spread(measured.value, measured.error, _decimals(judged), signed=judged.other is not None)


def published(judged: Judgement) -> str:
    """The published number, with `~` if read off a picture, and its printed error; empty if there is no number."""
    given = judged.claim.published
    if given is None:
        return ""
    is_rise = judged.claim.than is not None and given.value > 0
    return re.sub(r"^(~?)", r"\1+", given.text) if is_rise else given.text


def spread(value: float, error: float | None, decimals: int = 0, signed: bool = False) -> str:
    """`0.1234 ± 0.0012`: two digits of the error, and as many decimals of the value."""
    known = error if error is not None and error >= 10**-MOST_DECIMALS else None
    text = ("+" if signed and value > 0 else "") + number(value, known, decimals)
    return text if known is None else f"{text} \N{PLUS-MINUS SIGN} {number(known, known, decimals)}"


def number(value: float | None, error: float | None = None, decimals: int = 0) -> str:
    """A number with a real minus sign, and with as many decimals as its error justifies; an en dash for None."""
    if value is None or not math.isfinite(value):
        return MISSING if value is None else str(value).replace("-", MINUS)
    if error:
        digits = 1 - math.floor(math.log10(error))
    else:
        digits = max(decimals, SIGNIFICANT - 1 - math.floor(math.log10(abs(value)))) if value else decimals
    return f"{value:,.{min(max(digits, 0), MOST_DECIMALS)}f}".replace("-", MINUS)


def _decimals(judged: Judgement) -> int:
    """Decimals of the published number."""
    given = judged.claim.published
    return len(re.split(r"\.", re.split(r" |$", given.text)[0])[-1]) if given and "." in given.text else 0
