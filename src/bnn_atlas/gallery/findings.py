"""The findings of a paper on the page of its study, each judged by its claims."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from bnn_atlas.claims.verdict import HOLDS, Verdict
from bnn_atlas.gallery.escape import cell, sentence
from bnn_atlas.gallery.numbers import DASH, limit
from bnn_atlas.gallery.verdicts import measured_number, paper_number, trust_word
from bnn_atlas.metrics.judgement.trust import BY_WEIGHT

RULE = (
    "A finding is *not reproduced* if one of its claims is not, else *not tested* if one of them is not, else *not "
    "run* if its main claim was not. Otherwise it is reproduced, and *at reduced scale* if one of its claims is; "
    "claims that were not run are counted and decide nothing."
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
