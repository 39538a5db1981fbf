"""The claims of a study on its page: who states them, why some are missed, and the findings that they judge."""

import logging
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bnn_atlas.claims.html import decimals
from bnn_atlas.claims.verdict import HOLDS, Verdict
from bnn_atlas.config.checks.runs import DEPENDENT
from bnn_atlas.config.data.splits import SCALED_WITH_TEST_ROWS
from bnn_atlas.files import read_parquet
from bnn_atlas.gallery.escape import cell, sentence
from bnn_atlas.gallery.numbers import DASH, DELTA, MARK, limit, with_sd
from bnn_atlas.metrics.judgement.trust import BY_WEIGHT, UNCONVERGED, reference_word

log = logging.getLogger(__name__)

SOURCES = {"paper": "The paper", "package": "The authors' package", "beyond": "Beyond the paper"}
"""Source of a claim -> heading of its group."""
MOST_DECIMALS = 7
UNDECIDED = "**undecided**"


def read_claims(study: str, table: str | Path) -> pd.DataFrame:
    """The rows of one study in the table of claims."""
    judged = read_parquet(table)
    return judged[judged["study"] == study].reset_index(drop=True)


def write_csv(judged: pd.DataFrame, path: Path) -> None:
    """Write the claims as CSV, with nested columns as text."""
    flat = judged.assign(
        reductions=["; ".join(texts) for texts in judged["reductions"]],
        rows=["; ".join(_row_text(row) for row in rows) for rows in judged["rows"]],
    )
    flat.to_csv(path, index=False, lineterminator="\n", float_format="%.6g")


def counts(verdicts: Iterable[str]) -> str:
    """The number of claims with each verdict, in words."""
    given = list(verdicts)
    return ", ".join(f"{given.count(verdict)} {verdict}" for verdict in map(str, Verdict) if verdict in given)


def claim_groups(
    judged: pd.DataFrame, figures: Collection[str], findings: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Claims grouped by source: `title`, `citations`, `counts`, `tables` and `open`.

    `tables` has a table of claims at the paper's setting and one at a reduced setting, if there are such claims, each
    with `heading`, `rows` and whether it has the column `reduced`. `open` are claims that were not run, with the reason
    and what would settle them. A claim links to its figure if it is among `figures`, and names its findings by number.
    """
    groups = []
    for source, title in SOURCES.items():
        of_source = judged[judged["source"] == source]
        if of_source.empty:
            continue
        was_run = of_source["verdict"] != str(Verdict.NOT_RUN)
        is_reduced = of_source["reductions"].map(len) > 0
        parts = (
            ("At the paper's setting", False, was_run & ~is_reduced),
            ("At a reduced setting", True, was_run & is_reduced),
        )
        groups.append(
            {
                "title": title,
                "citations": [cell(text.rstrip(".")) for text in dict.fromkeys(of_source["paper"])],
                "counts": counts(of_source["verdict"]),
                "tables": [
                    {
                        "heading": heading,
                        "reduced": reduced,
                        "rows": [claim_cells(row, figures, findings) for _, row in of_source[chosen].iterrows()],
                    }
                    for heading, reduced, chosen in parts
                    if chosen.any()
                ],
                "open": [_open_cells(row) for _, row in of_source[~was_run].iterrows()],
            }
        )
    return groups


def claim_cells(row: pd.Series, figures: Collection[str], findings: Sequence[Mapping[str, Any]] = ()) -> dict[str, str]:
    """The cells of one claim; `paper` and `here` of a claim about two values are their difference."""
    numbers = [number for number, finding in enumerate(findings, 1) if row["claim"] in finding["claims"]]
    below = [cell(row["section"])]
    below += [f"[figure](#{row['figure']})"] if row["figure"] in figures else []
    below += [f"finding {', '.join(map(str, numbers))}"] if numbers else []
    return {
        "verdict": _verdict(row),
        "trust": cell(trust_word(row["trust"])),
        "claim": f"{sentence(row['statement'])}<br><sub>{' · '.join(below)}</sub>",
        "paper": paper_number(row),
        "here": measured_number(row),
        "limit": cell(limit(row["relation"], _given(row["tolerance"]), _given(row["bound"]), row["compares"])),
        "reduced": cell(_reduced(row["reductions"])),
    }


def causes(judged: pd.DataFrame) -> list[dict[str, str]]:
    """Why each claim that is not reproduced is missed: `claim`, `cause`, `decided_by`, `result`.

    A miss without a cause is undecided. An unused cause, of a claim that is reproduced, is named in the log.
    """
    for _, row in judged[judged["verdict"].isin(HOLDS) & (judged["cause"] != "")].iterrows():
        log.warning(
            "config/claims/%s.yaml: claims.%s.cause is not used: the claim is %s at scale %s",
            *(row["study"], row["claim"], row["verdict"], row["scale"]),
        )
    missed = judged[judged["verdict"] == str(Verdict.FAILED)]
    return [
        {
            "claim": f"{sentence(row['statement'])}<br><sub>{cell(row['reason'])}</sub>",
            "cause": cell(row["cause"]) or UNDECIDED,
            "decided_by": cell(row["decided_by"]) or DASH,
            "result": cell(row["result"]) or DASH,
        }
        for _, row in missed.iterrows()
    ]


def paper_number(row: pd.Series) -> str:
    """The paper's number, or the difference of its two numbers; a dash if it gives none."""
    text = with_sd(_given(row["paper_value"]), None, _digits(row))
    return DELTA + text if row["compares"] and text != DASH else text


def measured_number(row: pd.Series) -> str:
    """The measured number, with its standard deviation over repetitions or, for a single run, its standard error."""
    names = ("difference", "difference_sd", "difference_standard_error")
    value, sd, error = (row[name] for name in (names if row["compares"] else ("value", "sd", "standard_error")))
    text = with_sd(value, error if pd.isna(sd) else sd, min(_digits(row), _of_size(value)))
    text = DELTA + text if row["compares"] and text != DASH else text
    text += f" ({UNCONVERGED})" if any(reference_word(one["note"]) for one in row["rows"]) else ""
    return text + (MARK if _marked(row["rows"]) else "")


def trust_word(words: str) -> str:
    """The status with which a text on the trust in a run begins."""
    return words.partition(":")[0]


def _verdict(row: pd.Series) -> str:
    """The verdict; a miss has a link to the causes, and a claim that is not tested has the reason."""
    if row["verdict"] == str(Verdict.FAILED):
        return f"[{Verdict.FAILED}](#misses-and-their-causes)"
    reason = f": {row['reason']}" if row["verdict"] == str(Verdict.NOT_TESTED) and row["reason"] else ""
    return cell(row["verdict"] + reason)


def _open_cells(row: pd.Series) -> dict[str, str]:
    return {"statement": sentence(row["statement"]), "reason": cell(row["reason"]), "needed": cell(row["needed"])}


def _digits(row: pd.Series) -> int:
    """Decimals of the numbers of a claim: as many as the paper's number and the tolerance have, at least four."""
    return min(MOST_DECIMALS, max(4, *(decimals(_given(row[name])) for name in ("paper_value", "tolerance"))))


def _of_size(value: float) -> int:
    """Decimals that give a number five significant digits; no limit for numbers below 10."""
    return max(0, 4 - math.floor(math.log10(abs(value)))) if 10 <= abs(value) < math.inf else MOST_DECIMALS


def _given(value: float | None) -> float | None:
    return None if pd.isna(value) else float(value)


def _marked(rows: Collection[Mapping[str, Any]]) -> bool:
    """Whether a row that answered belongs to a run with a mark."""
    return any(mark in row["note"] for row in rows for mark in (SCALED_WITH_TEST_ROWS, DEPENDENT))


def _reduced(reductions: Collection[str]) -> str:
    """`chains 1000 → 100; ...` from `entry: field: 1000 -> 100`, each change once."""
    short = []
    for text in reductions:
        _, field, change = text.split(": ", 2)
        short.append(f"{field.rpartition('.')[2]} {change.replace('->', '→')}")
    return "; ".join(dict.fromkeys(short))


def _row_text(row: Mapping[str, Any]) -> str:
    excluded = f" ({row['excluded']} excluded)" if row["excluded"] else ""
    return (
        f"{row['side']}: {row['run']} split {row['split']} {row['dataset']} {row['metric']}, {row['chains']} chains"
        f"{excluded}, {row['draws']} draws = {row['value']:.6g}"
    )


RULE = (
    "A finding is *not reproduced* if one of its claims is not reproduced, else *not tested* if one is not tested, "
    "else *not run* if its main claim was not run. Otherwise it is reproduced, or *reproduced at reduced scale* if one "
    "of its claims is. Other claims that were not run are counted and decide nothing."
)
"""The rule of `combined` in words."""


def finding_cells(
    findings: Sequence[Mapping[str, Any]], judged: pd.DataFrame, figures: Collection[str]
) -> list[dict[str, str]]:
    """One row per finding: statement with source and link to its figure, numbers of its main claim, and verdict.

    Args:
        findings: fields of `config.claims.load.Finding`.
        judged: the study's claims.
        figures: names of the figures on the page.
    """
    by_name = judged.set_index("claim", drop=False)
    return [_cells(finding, by_name.loc[list(finding["claims"])], figures) for finding in findings]


def combined(verdicts: Sequence[str]) -> Verdict:
    """The verdict on a finding from the verdicts on its claims, with the main claim first (`RULE`)."""
    for verdict in (Verdict.FAILED, Verdict.NOT_TESTED):
        if verdict in verdicts:
            return verdict
    if verdicts[0] == Verdict.NOT_RUN:
        return Verdict.NOT_RUN
    return Verdict.REDUCED if Verdict.REDUCED in verdicts else Verdict.REPRODUCED


def _cells(finding: Mapping[str, Any], claims: pd.DataFrame, figures: Collection[str]) -> dict[str, str]:
    main, verdicts = claims.iloc[0], list(claims["verdict"])
    verdict = combined(verdicts)
    figure = main["figure"]
    below = [cell(finding["source"]), *([f"[figure](#{figure})"] if figure in figures else [])]
    below.append(f"measured: {sentence(main['statement'])}")
    paper = paper_number(main)
    if paper == DASH:
        tolerance, bound = (None if pd.isna(main[name]) else float(main[name]) for name in ("tolerance", "bound"))
        paper = f"no number; {cell(limit(main['relation'], tolerance, bound, main['compares']))} asked"
    return {
        "finding": f"{sentence(finding['statement'])}<br><sub>{' · '.join(below)}</sub>",
        "paper": paper,
        "here": measured_number(main),
        "verdict": f"**{verdict}**<br><sub>{_counted(verdict, verdicts)}</sub>",
        "trust": _worst_trust([trust_word(words) for words in claims["trust"] if words]),
        "cost": finding["cost"],
    }


def _counted(verdict: Verdict, verdicts: Sequence[str]) -> str:
    """How many of the claims have the verdict; "reproduced at reduced scale" includes the fully reproduced ones."""
    same = HOLDS if verdict in HOLDS else (verdict,)
    number, missing = sum(one in same for one in verdicts), verdicts.count(str(Verdict.NOT_RUN))
    text = f"{number} of {len(verdicts)} claims" if len(verdicts) > 1 else "1 claim"
    return f"{text}, {missing} not run" if missing and verdict != Verdict.NOT_RUN else text


def _worst_trust(words: Sequence[str]) -> str:
    """The worst status of all claims; a dash if they need no draws."""
    order = [status.value for status in BY_WEIGHT]
    return min(words, key=lambda word: order.index(word) if word in order else len(order), default=DASH)
