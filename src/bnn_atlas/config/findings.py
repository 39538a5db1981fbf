"""What a page of results says first, as data: the findings of a paper, and why a claim was missed."""

from collections.abc import Collection, Iterable
from typing import Annotated, Literal

from pydantic import Field

from bnn_atlas.config.base import Model, near_or_all

Cost = Literal["1 s", "10 min", "1 h", "1 day"]
"""How long it takes to check something on two cores; each is a step of the page's ladder of commands."""


class Cause(Model):
    """Why a claim is not reproduced."""

    cause: str
    """What the difference comes from, in a few words."""
    decided_by: str
    """The run, the calculation or the source that decided it."""
    result: str
    """What came out of that."""


class Finding(Model):
    """What a reader takes away from the paper, and the claims that stand behind it."""

    statement: str
    """The paper's finding in one sentence."""
    source: str
    """Where the paper states it."""
    claims: Annotated[tuple[str, ...], Field(min_length=1)]
    """Claims of this file; the first is the main one, whose number stands for the finding."""
    figure: str | None = None
    """A figure of the study that shows it; null takes that of the main claim, if it names one."""
    cost: Cost
    """The shortest of the page's commands that checks its main claim."""


def unknown_names(findings: Iterable[Finding], claims: Collection[str], figures: Collection[str]) -> list[str]:
    """What is wrong with the names in findings: claims and figures that do not exist, claims that are named twice."""
    found = []
    for place, finding in enumerate(findings):
        where = f"findings.{place}"
        for name in dict.fromkeys(finding.claims):
            if name not in claims:
                found.append(f"{where}.claims: no claim '{name}' in this file{near_or_all(name, 'it has', claims)}")
            if finding.claims.count(name) > 1:
                found.append(f"{where}.claims: '{name}' is named {finding.claims.count(name)} times; name it once")
        if finding.figure is not None and finding.figure not in figures:
            near = near_or_all(finding.figure, "it has", figures)
            found.append(f"{where}.figure: no figure '{finding.figure}' in the study{near}")
    return found
