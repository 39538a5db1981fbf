"""The claims of a study on its page: who states them, why some are missed, and the findings that they judge."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bnn_atlas.claims.html import limit_text
from bnn_atlas.claims.plan import IDENTITIES
from bnn_atlas.claims.rules import HOLDS, MISSES, Verdict
from bnn_atlas.claims.verdict import leading
from bnn_atlas.config.checks.runs import DEPENDENT
from bnn_atlas.config.data.splits import SCALED_WITH_TEST_ROWS
from bnn_atlas.files import read_parquet
from bnn_atlas.gallery.escape import cell, sentence
from bnn_atlas.gallery.numbers import DASH, MARK
from bnn_atlas.metrics.judgement.trust import BY_WEIGHT, UNCONVERGED, reference_word

log = logging.getLogger(__name__)

GROUPS = {False: "What was published", True: "Questions of this project"}
"""Whether claims are questions of this project -> heading."""
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
    """The published claims and the own questions: `title`, `citations`, `counts`, `tables` and `open`.

    `tables` has a table for each identity with such claims, with `heading` and `rows`. `open` are claims that are to be
    run, with the reason and what would settle them. A claim links to its figure if it is among `figures`, and names its
    findings by number.
    """
    groups = []
    for is_own, title in GROUPS.items():
        chosen = judged[(judged["read_in"] == "own") == is_own]
        if chosen.empty:
            continue
        was_run = chosen["verdict"] != str(Verdict.TO_RUN)
        parts = {name: chosen[was_run & (chosen["identity"] == name)] for name in IDENTITIES}
        groups.append(
            {
                "title": title,
                "citations": [cell(text.rstrip(".")) for text in dict.fromkeys(chosen["paper"])],
                "counts": counts(chosen["verdict"]),
                "tables": [
                    {
                        "heading": name[0].upper() + name[1:],
                        "rows": [claim_cells(row, figures, findings) for _, row in part.iterrows()],
                    }
                    for name, part in parts.items()
                    if len(part)
                ],
                "open": [_open_cells(row) for _, row in chosen[~was_run].iterrows()],
            }
        )
    return groups


def claim_cells(row: pd.Series, figures: Collection[str], findings: Sequence[Mapping[str, Any]] = ()) -> dict[str, str]:
    """The cells of one claim; `paper` and `here` of a claim about two values are their difference."""
    numbers = [number for number, finding in enumerate(findings, 1) if row["claim"] in finding["claims"]]
    below = [cell(row["place"] or "own question")]
    below += [f"[figure](#{row['figure']})"] if row["figure"] in figures else []
    below += [f"finding {', '.join(map(str, numbers))}"] if numbers else []
    return {
        "verdict": _verdict(row),
        "claim": f"{sentence(row['statement'])}<br><sub>{' · '.join(below)}</sub>",
        "paper": row["paper_text"] or DASH,
        "here": measured_number(row),
        "limit": cell(limit_text(row["relation"], row["size"])),
        "reduced": cell(_reduced(row["reductions"])),
    }


def causes(judged: pd.DataFrame) -> list[dict[str, str]]:
    """Why a claim differs or does not hold: `claim`, `cause`, `decided_by`, `result`.

    A miss without a cause is undecided. An unused cause, of a claim that holds, is named in the log.
    """
    for _, row in judged[judged["verdict"].isin(HOLDS) & (judged["cause"] != "")].iterrows():
        log.warning(
            "config/claims/%s.yaml: claims.%s.cause is not used: the claim is %s at scale %s",
            *(row["study"], row["claim"], row["verdict"], row["scale"]),
        )
    missed = judged[judged["verdict"].isin(MISSES)]
    return [
        {
            "claim": f"{sentence(row['statement'])}<br><sub>{cell(row['reason'])}</sub>",
            "cause": cell(row["cause"]) or UNDECIDED,
            "decided_by": cell(row["decided_by"]) or DASH,
            "result": cell(row["result"]) or DASH,
        }
        for _, row in missed.iterrows()
    ]


def measured_number(row: pd.Series) -> str:
    """The measured number with its error, and marks."""
    text = row["here"] or DASH
    text += f" ({UNCONVERGED})" if any(reference_word(one["note"]) for one in row["rows"]) else ""
    return text + (MARK if _marked(row["rows"]) else "")


def trust_word(words: str) -> str:
    """The status with which a text on the trust in a run begins."""
    return words.partition(":")[0]


def _verdict(row: pd.Series) -> str:
    """The verdict; a miss has a link to the causes, and a claim that cannot be told has the reason."""
    if row["verdict"] in MISSES:
        return f"[{row['verdict']}](#misses-and-their-causes)"
    return cell(f"{row['verdict']}: {row['reason']}" if row["reason"] else row["verdict"])


def _open_cells(row: pd.Series) -> dict[str, str]:
    return {"statement": sentence(row["statement"]), "reason": cell(row["reason"]), "needed": cell(row["needed"])}


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
    "A finding is judged by its main claim or, if that is to be run, by the one of the nearest identity that was run; "
    "the other claims qualify it."
)
"""The rule of `claims.verdict.leading` in words."""


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


def _cells(finding: Mapping[str, Any], claims: pd.DataFrame, figures: Collection[str]) -> dict[str, str]:
    verdicts = list(claims["verdict"])
    chosen = leading(list(zip(verdicts, claims["identity"], strict=True)))
    main, verdict = claims.iloc[chosen], verdicts[chosen]
    figure = main["figure"]
    below = [cell(main["place"] or "own question"), *([f"[figure](#{figure})"] if figure in figures else [])]
    below.append(f"measured: {sentence(main['statement'])}")
    return {
        "finding": f"{sentence(finding['statement'])}<br><sub>{' · '.join(below)}</sub>",
        "paper": main["paper_text"] or f"no number; {cell(limit_text(main['relation'], main['size']))} asked",
        "here": measured_number(main),
        "verdict": f"**{verdict}**<br><sub>{main['identity']}; {verdicts.count(verdict)} of {len(verdicts)}</sub>",
        "trust": _worst_trust([trust_word(words) for words in claims["trust"] if words]),
        "cost": finding["cost"],
    }


def _worst_trust(words: Sequence[str]) -> str:
    """The worst status of all claims; a dash if they need no draws."""
    order = [status.value for status in BY_WEIGHT]
    return min(words, key=lambda word: order.index(word) if word in order else len(order), default=DASH)
