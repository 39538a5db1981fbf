"""ARTIFACT.md: what it takes to check the claims, what comes out, and by which draws; from claims and recorded jobs.

`python -m bnn_atlas.report.artifact` writes it.
"""

import math
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pandas as pd

from bnn_atlas.claims.plan import claimed_study
from bnn_atlas.claims.rules import Verdict
from bnn_atlas.config.claims.load import claims_of
from bnn_atlas.config.settings import Atlas, load_atlas, read_settings
from bnn_atlas.kept import FOLDER, TEXTS
from bnn_atlas.report.console import columns, read_rows
from bnn_atlas.report.text import KINDS, asked, counted, in_order, write

PAGE = "ARTIFACT.md"
SHARED = "evaluate"
"""The step that all studies have, whose claims are listed by finding."""
ACROSS = 2
"""Draws that stand next to each other."""
TOLERANCES = 3
"""Largest number of tolerances that are named for a group of claims."""


def artifact(root: Path) -> dict[str, Any]:
    """What the page says, for its template, from the files of a repository."""
    atlas = load_atlas(read_settings(root / "config" / "config.yaml") | {"scale": "laptop"}, root / "config")
    steps: list[dict[str, Any]] = []
    deviations: list[tuple[str, Any]] = []
    draws: list[str] = []
    used: set[str] = set()
    for study, config in atlas.claims.items():
        kept = root / "docs" / "results" / study
        expected = {row["claim"]: row for row in read_rows(kept / "claims.csv")}
        made = pd.read_csv(kept / FOLDER / "runs.csv", keep_default_na=False, dtype=dict.fromkeys(TEXTS, str))
        jobs = pd.read_csv(kept / FOLDER / "jobs.csv", keep_default_na=False)
        for name, step in config.steps.items():
            if step.scale != atlas.settings.scale:
                continue
            claims = claims_of(config, name)
            runs = _runs(atlas, study, claims)
            rows = [expected[claim] for claim in claims if claim in expected]
            parts = jobs["job"].str.split("/")
            of_runs = jobs[(parts.str[0] == study) & parts.str[1].isin(runs)]
            minutes = of_runs[["seconds", "cpu_seconds"]].max(axis=1).sum() / 60
            groups = _groups(rows) if name == SHARED else {"and all above": rows}
            steps.append({"study": study, "name": name, "groups": groups, "minutes": minutes})
            if name == SHARED:
                failed = [row for row in rows if KINDS[Verdict(row["verdict"])] in ("bad", "note")]
                deviations += [(study, row) for row in failed]
                used |= _datasets(atlas, study, runs)
                known = made[made["run"].isin(runs) & (made["draws"] != "")]
                draws += map("{} {} {}".format, known["run"], known["split"], known["draws"])
    draws += [""] * (-len(draws) % ACROSS)
    steps.sort(key=lambda step: step["name"] != SHARED)
    return {
        "steps": steps,
        "deviations": deviations,
        "draws": columns([draws[n : n + ACROSS] for n in range(0, len(draws), ACROSS)]),
        "hosts": _hosts(atlas, used),
        "minutes": (total := sum(step["minutes"] for step in steps if step["name"] == SHARED)),
        "takes": takes(total),
        "scale": atlas.settings.scale,
        "verdicts": lambda rows: counted(in_order(row["verdict"] for row in rows)),
        "tolerance": _tolerance,
    }


def _runs(atlas: Atlas, study: str, claims: list[str]) -> set[str]:
    """The runs behind claims."""
    config = atlas.claims[study]
    chosen = config.model_copy(update={"claims": {claim: config.claims[claim] for claim in claims}})
    return set(claimed_study(atlas.studies[study], chosen, atlas.settings.scale).runs)


def _groups(rows: list[Any]) -> dict[str, list[Any]]:
    """Claims by the finding that they support."""
    found = defaultdict(list)
    for row in rows:
        found[row["finding"].replace("_", " ") or "other claims"].append(row)
    return found


def _tolerance(rows: list[Any]) -> str:
    """The sizes or bounds of some claims; `each its own` if there are many."""
    sizes = list(dict.fromkeys(asked(row["relation"], float(row["size"])) for row in rows))
    return ", ".join(sizes) if len(sizes) <= TOLERANCES else "each its own"


def takes(minutes: float) -> str:
    """The time of a step in words: its core-minutes on two cores, rounded up to five minutes."""
    return f"about {5 * math.ceil(minutes / 10)} minutes on two cores"


def _datasets(atlas: Atlas, study: str, runs: Collection[str]) -> set[str]:
    """The data sets of some runs, with those on which the runs are evaluated or that they are compared with."""
    found: set[str] = set()
    for config in (atlas.studies[study].runs[run].config for run in runs):
        found |= {config.dataset, *config.evaluate.out_of_distribution, *config.evaluate.references}
    return found


def _hosts(atlas: Atlas, used: Collection[str]) -> dict[str, list[str]]:
    """Publisher's host -> the data sets in use that it has."""
    found: dict[str, list[str]] = {}
    for name, entry in atlas.datasets.items():
        for file in entry.files if name in used else ():
            host = urlsplit(str(file.url)).netloc if file.url else ""
            if host and name not in found.setdefault(host, []):
                found[host].append(name)
    return dict(sorted(found.items()))


def write_artifact(root: Path, destination: Path) -> None:
    """Write the page."""
    write(destination, "artifact.md.j2", **artifact(root))


if __name__ == "__main__":
    write_artifact(Path(), Path(PAGE))
