"""Measured numbers in texts: filled from the tables when they are written, so that they cannot go stale."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bnn_atlas.claims.table import write_claims
from bnn_atlas.claims.texts import Numbers, here, number, published, spread
from bnn_atlas.claims.verdict import Judgement, judge
from bnn_atlas.config.claims.load import ClaimsConfig
from bnn_atlas.config.settings import load_atlas
from tests.config.test_repository import CONFIG

from .making import COMPARISON, claimed, planned, printed, row, table

RUNS = {name: planned(name, splits=2) for name in ("single", "other")}
CAUSE = {"cause": "it has {here}", "certainty": "proved", "decided_by": "{=c1}", "result": "{=single/coverage/0.9}"}


Judged = tuple[dict[str, Judgement], pd.DataFrame]


@pytest.fixture
def judged(tmp_path: Path) -> Judged:
    """0.5 and 0.9, each ± 0.01 on two splits; the claims `c0` on the first, `c1` on the difference, `c2` on nothing."""
    rows = [row("single", 0.8, metric="coverage", at="0.9", split=n, standard_error=0.25) for n in (0, 1)]
    for run, value in (("single", 0.5), ("other", 0.9)):
        rows += [row(run, value + shift, split=n) for n, shift in ((0, -0.01), (1, 0.01))]
        for part, size in (("test", 0.0), ("train", 80.0)):
            rows += [row(run, size, metric=f"rows_{part}", split=n) for n in (0, 1)]
    below = COMPARISON | {"runs": ["single"], "than": {"runs": ["other"]}}
    wrong = {"runs": ["other"], "erratum": "the formula gives {here}"}
    study = claimed({"runs": ["single"], "cause": CAUSE}, below, {"runs": ["gone"]}, wrong, runs=RUNS)
    measured = table(tmp_path, rows)
    return {name: judge(name, study, measured) for name in study.claims.claims}, measured


@pytest.fixture
def numbers(judged: Judged) -> Numbers:
    return Numbers({name: here(one) for name, one in judged[0].items()}, judged[1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no place", "no place"),
        ("{x} stays", "{x} stays"),
        ("{=c0}", "0.500 ± 0.010"),
        ("{=c1} and {=c2}", "−0.4000 and –"),
        ("{=single/rmse}", "0.500 ± 0.010"),
        ("{=single/coverage/0.9}", "0.8000"),
        ("{=single/lppd} of {=nobody/rmse}", "– of –"),
    ],
)
def test_places_are_filled_with_what_was_measured(numbers: Numbers, text: str, expected: str) -> None:
    assert numbers.filled(text) == expected


def test_a_text_of_a_claim_can_have_its_own_value_and_the_table_holds_filled_texts(
    judged: Judged, numbers: Numbers, tmp_path: Path
) -> None:
    own = judged[0]["c0"]
    assert numbers.filled("{here} ({here_error})", own) == "0.500 ± 0.010 (0.010)"
    for text, wrong in (("{=c9}", "no claim 'c9'"), ("{here}", "belongs to no claim")):
        with pytest.raises(KeyError, match=wrong):
            numbers.filled(text)
    write_claims(tmp_path / "claims.parquet", list(judged[0].values()), {"small": judged[1]})
    rows = pd.read_parquet(tmp_path / "claims.parquet")
    assert rows["reason"].iloc[3] == rows["erratum"].iloc[3] == "the formula gives 0.900 ± 0.010"
    first = rows.iloc[0]
    assert (first["cause"], first["decided_by"], first["result"]) == ("it has 0.500 ± 0.010", "−0.4000", "0.8000")


@pytest.mark.parametrize(
    ("value", "error", "signed", "text"),
    [
        (0.12345, 0.0123, False, "0.123 ± 0.012"),
        (-0.12345, None, False, "−0.1235"),
        (0.12345, None, True, "+0.1235"),
        (1234567.0, 321.0, False, "1,234,567 ± 321"),
        (0.5, 1e-17, False, "0.5000"),
        (0.0, None, False, "0"),
    ],
)
def test_a_number_has_the_digits_that_its_error_gives_it(
    value: float, error: float | None, signed: bool, text: str
) -> None:
    assert spread(value, error, signed=signed) == text


def test_published_differences_have_a_sign_and_nothing_is_a_dash(judged: Judged) -> None:
    def with_number(**changes: Any) -> Judgement:
        one = judged[0]["c1"]
        claims = one.study.claims
        claim = claims.claims["c1"].model_copy(update=changes)
        claims = claims.model_copy(update={"claims": claims.claims | {"c1": claim}})
        return one._replace(study=one.study.model_copy(update={"claims": claims}))

    shown = claimed({"published": printed(0.25)}).claims.claims["c0"].published
    assert shown is not None
    off = shown.model_copy(update={"text": "~0.25"})
    assert [published(with_number(published=given)) for given in (shown, off, None)] == ["+0.25", "~+0.25", ""]
    assert number(None) == "–"


LITERAL = re.compile(r"(?<![\w.,:/^-])[~−-]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w^]|\.\d)")
"""A number in a text, but not a part of a name such as 2x8, CIFAR-10 or layer1."""
STALE: dict[str, list[str]] = {
    "hmc_posteriors": [
        "synthetic_acceptance", "mnist_acceptance_30",
    ],
    "sampling_perspective": [
        "rescaling_zero", "circle_fills_with_units",
    ],
}  # fmt: skip
"""Claims whose texts still have numbers that are typed in, not taken from a table."""


def typed(text: str, known: set[float]) -> list[str]:
    """Numbers of a text that are neither places, nor settings, nor names."""
    bare = re.sub(r"\{[^{}]*\}|N\(0, [\d.^]+\)|arXiv [\d.]+|\d+x\d+(x\d+)*", "", text)
    found = [match[0] for match in LITERAL.finditer(bare)]
    return [one for one in found if abs(float(one.strip(",~").replace(",", "").replace("−", "-"))) not in known]


def settings(study: str) -> set[float]:
    """Numbers of a study's settings and data, and those that were published; small whole numbers count, too."""
    files = [CONFIG / "studies" / f"{study}.yaml", CONFIG / "published" / f"{study}.csv", CONFIG / "datasets.yaml"]
    text = " ".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
    numbers = {abs(float(one.replace("_", ""))) for one in re.findall(r"\d[\d_]*(?:\.\d+)?(?:e-?\d+)?", text)}
    return numbers | set(map(float, range(13)))


def texts(claims: ClaimsConfig) -> dict[str, tuple[str, set[float]]]:
    """Name -> the texts that may hold measured numbers, and the numbers that are the claim's own."""
    found = {one.name: (f"{one.statement} {one.caveat or ''}", set[float]()) for one in claims.findings}
    for name, claim in claims.claims.items():
        cause = [claim.cause.cause, claim.cause.decided_by or "", claim.cause.result or ""] if claim.cause else []
        own = [claim.size, claim.bound, claim.target, claim.published and claim.published.value]
        levels = re.findall(r"[\d.]*\d", f"{claim.at} {claim.in_figure and claim.in_figure.where}")
        numbers = {round(abs(one), 12) for one in own if one is not None} | {float(one) for one in levels}
        found[name] = (" ".join([claim.statement, claim.erratum or "", *cause]), numbers)
    return found


@pytest.mark.parametrize("study", sorted(file.stem for file in (CONFIG / "claims").glob("*.yaml")))
def test_measured_numbers_in_texts_are_places(study: str) -> None:
    claims = load_atlas({"scale": "paper", "studies": [study]}, CONFIG).claims[study]
    known = settings(study)
    found = {name: typed(text, known | own) for name, (text, own) in texts(claims).items()}
    wrong = {name: numbers for name, numbers in found.items() if numbers and name not in STALE.get(study, ())}
    assert wrong == {}, f"config/claims/{study}.yaml: take these from a table, as {{=claim}} or {{=run/metric}}"
