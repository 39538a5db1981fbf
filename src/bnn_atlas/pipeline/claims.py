"""Input of the rule that judges claims."""

from collections.abc import Iterable
from typing import Any

from bnn_atlas.claims.plan import OF_ROWS, claimed_study
from bnn_atlas.config.claims.load import ClaimsConfig
from bnn_atlas.config.runs.expansion import leaves
from bnn_atlas.config.runs.studies import Run
from bnn_atlas.config.settings import Atlas
from bnn_atlas.pipeline.paths import Paths


def claim_targets(atlas: Atlas) -> dict[str, tuple[list[str], str]]:
    """Target -> its studies, and the path of its page, relative to the results and without its ending."""
    each = {f"{study}_claims": ([study], f"claims/{study}") for study in atlas.claims}
    return {"claims": (list(atlas.claims), "claims")} | each


def claimed_studies(atlas: Atlas, studies: Iterable[str]) -> list[dict[str, Any]]:
    """The claims of studies, with the facts about their runs that are needed to judge them, as plain data."""
    scale = atlas.settings.scale
    return [
        claimed_study(atlas.studies[study], atlas.claims[study], scale).model_dump(mode="json") for study in studies
    ]


def about_claims(atlas: Atlas, study: str) -> dict[str, Any]:
    """What `report.view` has to know about the claims of a study besides their verdicts, as plain data."""
    claims = atlas.claims.get(study) or ClaimsConfig(paper="", claims={})
    return {
        "cites": claims.paper,
        "could_be_read": claims.could_be_read or "",
        "families": claims.families,
        "no_claim": claims.no_claim,
        "findings": [finding.model_dump(mode="json") for finding in claims.findings],
    }


def compared_predictions(atlas: Atlas, paths: Paths, studies: Iterable[str]) -> dict[str, str]:
    """`study/run/split<n>` -> predictions for the test rows of runs that claims compare row by row."""
    found = {}
    for study in studies:
        for claim in atlas.claims[study].claims.values():
            sides = list(claim.sides.values())
            if len(sides) < 2 or any(side.metric not in OF_ROWS for side in sides):
                continue
            for run in atlas.studies[study].runs_of(tuple(name for side in sides for name in side.runs)):
                for split in range(run.config.split.count):
                    found[f"{study}/{run.name}/split{split}"] = paths.of(run, split, "predictive/test.npz")
    return found


def claim_settings(atlas: Atlas, studies: Iterable[str]) -> list[dict[str, Any]]:
    """`claimed_studies`, split into single named settings, so that a message can name one that changed."""
    found = claimed_studies(atlas, studies)
    return [{f"{study['name']}: {key}": value} for study in found for key, value in leaves(study)]


def published_of(atlas: Atlas, run: Run) -> list[dict[str, Any]]:
    """A run's published numbers, from the claims of its study, for its figures; fields of `figures.published`.

    Empty if the run uses a different data set than at scale `paper`. Claims about the difference between two runs are
    left out, since they give no number for either run alone.
    """
    study, claims = atlas.studies[run.study], atlas.claims.get(run.study)
    paper = study.runs_at["paper"].get(run.name)
    if claims is None or paper is None or paper.config.dataset != run.config.dataset:
        return []
    return [
        {
            "metric": claim.metric,
            "value": claim.published.value,
            "sd": claim.published.error,
            "chains": claim.chains,
            "at": claim.at,
        }
        for claim in claims.claims.values()
        if claim.published and claim.relation == "equals" and claim.than is None
        if {run.name, run.entry} & set(claim.runs)
        if claim.dataset in (None, run.config.dataset)
    ]
