"""Input of a study's page, as plain data: the files that may exist, and how they are made."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bnn_atlas.config.checks.runs import Sources
from bnn_atlas.config.claims.load import claims_of
from bnn_atlas.config.runs.expansion import leaves, run_rows
from bnn_atlas.config.runs.studies import Run
from bnn_atlas.config.settings import Atlas
from bnn_atlas.inference.fingerprint import code_of_draws
from bnn_atlas.kept import FOLDER, blocks_of
from bnn_atlas.pipeline.claims import about_claims, claimed_studies, compared_predictions
from bnn_atlas.pipeline.figures import Figure, Figures
from bnn_atlas.pipeline.inputs import Inputs, Wildcards
from bnn_atlas.pipeline.params import Param, row_settings, run_settings, score_settings
from bnn_atlas.pipeline.paths import Paths
from bnn_atlas.provenance import fingerprint

KEPT = "docs/results"
"""Folder in which the pages of all studies are kept."""
OF_DRAWS = ("posterior", "method", "stopping")
"""Settings of a run that the rule `sample` gets."""
NOT_IN_DRAWS = {"description", "evaluate", "chains_per_block", "keep_draws", "referee"}
"""Settings of a run that do not change its draws."""
LENGTH = 12
"""Number of characters in a hash."""


Page = tuple[dict[str, Any], str, str | None]
"""The plan of a page, the commands that make it, and the folder of an earlier page (`steps.study_page`)."""


def pages(
    atlas: Atlas, paths: Paths, inputs: Inputs, figures: Figures, folder: str, studies: Iterable[str], kept: bool = True
) -> dict[str, Page]:
    """Folder of each page -> its `Page`, from existing results and, if `kept`, from those kept earlier."""
    return {
        f"{folder}/{study}": (
            page_plan(atlas, paths, inputs, figures, study),
            commands(paths, study),
            f"{KEPT}/{study}" if kept else None,
        )
        for study in studies
    }


def so_far(paths: Paths) -> str:
    """Folder of the pages of what has been run so far."""
    return f"{paths.results}/so_far"


def commands(paths: Paths, study: str) -> str:
    """The commands that make all results of a study and put them on its page."""
    options = f"--config scale={Path(paths.results).name} 'studies=[{study}]'"
    return f"snakemake --cores 2 {options}  # or runs and figures, by name\nsnakemake --cores 2 keep {options}"


def page_plan(atlas: Atlas, paths: Paths, inputs: Inputs, figures: Figures, study: str) -> dict[str, Any]:
    """Everything that `steps.study_page` needs to know about a study."""
    config, runs = atlas.studies[study].config, atlas.studies[study].runs
    drawn = [figure for figure in figures.all if figure.study == study]
    about = {"name": study, "title": config.title, "paper": config.paper, "differences": list(config.differences)}
    return {
        "name": study,
        "about": {
            "study": about | about_claims(atlas, study),
            "scale": atlas.settings.scale,
            "rows": run_rows(atlas.studies[study]),
            "captions": figures.captions(study),
            "entries": {name: run.entry for name, run in runs.items()},
            "datasets": {name: entry.title or name.replace("_", " ") for name, entry in atlas.datasets.items()},
            "steps": _steps(atlas, study),
            "shown": {each.name: [run.name for run in each.runs.values() if run.study == study] for each in drawn},
            "diagnostics": f"{paths.results}/figures/{study}/diagnostics",
        },
        "made": {
            "table": f"{paths.results}/tables/{study}.parquet",
            "summary": f"{paths.results}/tables/{study}-summary.csv",
            "runs": f"{paths.results}/tables/{study}-runs.csv",
            "claims": f"{paths.results}/claims.parquet" if study in atlas.claims else None,
        },
        "metadata": f"{paths.results}/records",
        "benchmarks": f"{paths.results}/benchmarks",
        "claims": claimed_studies(atlas, [study])[0] if study in atlas.claims else None,
        "runs": {name: _run(run, atlas, inputs) for name, run in runs.items()},
        "points": inputs.grid_points(study),
        "figures": {figure.name: _figure(figure, atlas) for figure in drawn},
        "archive": inputs.published(SimpleNamespace(target=study)),
        "predictions": compared_predictions(atlas, paths, [study]) if study in atlas.claims else {},
        "jobs": {
            "study": study,
            "sizes": {name: [run.config.split.count, run.config.blocks] for name, run in runs.items()},
            "figures": [figure.name for figure in drawn],
            "sections": figures.digests(study),
            "shared": inputs.shared_jobs(study),
        },
    }  # fmt: skip


def _steps(atlas: Atlas, study: str) -> list[tuple[str, str, int, list[str]]]:
    """For each step of a study: its name, the time it takes, its number of claims, and its runs."""
    claims = atlas.claims.get(study)
    if claims is None:
        return []
    found = []
    for name, step in claims.steps.items():
        if step.scale == "demo" != atlas.settings.scale:
            continue
        chosen = {claim: claims.claims[claim] for claim in claims_of(claims, name)}
        named = (run for claim in chosen.values() for side in claim.sides.values() for run in side.runs)
        runs = atlas.studies[study].runs_of(tuple(named))
        found.append((name, step.takes, len(chosen), list(dict.fromkeys(run.name for run in runs))))
    return found


def kept_blocks(atlas: Atlas) -> list[str]:
    """The archives of finished blocks that pages keep for today's settings of runs whose draws are reduced."""
    runs = [run for study in atlas.studies.values() for run in study.runs.values() if run.config.reduces_draws]
    files = [blocks_of(Path(KEPT, run.study, FOLDER), run.name, settings_of_run(run, atlas)) for run in runs]
    return [str(file) for file in files if file.is_file()]


def settings_of_run(run: Run, atlas: Atlas) -> str:
    """Hash of what determines a run's draws: its settings other than defaults, its data, the run it starts from.

    Defaults are left out, so that kept results stay valid when a field is added.
    """
    return fingerprint(_determining(run, atlas))[:LENGTH]


def _determining(run: Run, atlas: Atlas) -> dict[str, Any]:
    """What determines a run's draws."""
    full = run.config.model_dump(mode="json", exclude=NOT_IN_DRAWS)
    source = Sources(atlas.studies).of(run)
    return {
        "set": run.config.model_dump(mode="json", exclude=NOT_IN_DRAWS, exclude_defaults=True),
        "kinds": {key: value for key, value in leaves(full) if key.rpartition(".")[2] == "kind"},
        "files": [file.checksum for file in atlas.datasets[run.config.dataset].files],
        "source": settings_of_run(source, atlas) if source else None,
    }


def _run(run: Run, atlas: Atlas, inputs: Inputs) -> dict[str, Any]:
    """A run: its settings, its hashes and, for each split, its files and the required inputs of its traces."""
    splits = []
    tables = inputs.tables_of(run)
    for split in range(run.config.split.count):
        w = SimpleNamespace(study=run.study, run=run.name, split=str(split), block="0")
        folder = inputs.paths.of(run, split) + "/"
        settings = inputs.of_block(w) | _values(run_settings(inputs, *OF_DRAWS), w)
        starts = inputs.starts(w)
        so_far = None
        if run.config.reduces_draws:
            so_far = {
                "dataset": inputs.dataset(w),
                "split": inputs.split(w),
                "posterior": run.config.posterior.model_dump(mode="json"),
                "chains": run.config.chains,
                "scores": _values({**score_settings(inputs), **row_settings(inputs)}, w),
            }
        splits.append(
            {
                "tables": [file for file in tables if file.startswith(folder)],
                "settings": settings,
                "so_far": so_far,
                "traces": {
                    trace: [inputs.dataset(w), inputs.split(w), start]
                    for trace, start in zip(inputs.traces(w), starts, strict=True)
                },
            }
        )
    config, of = run.config, _determining(run, atlas)
    return {
        "settings": fingerprint(of)[:LENGTH],
        "set": of["kinds"] | dict(leaves(of["set"])) | {"files": of["files"], "source": of["source"]},
        "code": code_of_draws(config.method, config.posterior, stopped=config.stopping is not None)[:LENGTH],
        "reductions": "; ".join(run.reductions),
        "splits": splits,
    }


def _values(params: Mapping[str, Param], w: Wildcards) -> dict[str, Any]:
    return {name: value for param in params.values() for name, value in param(w).items()}


def _figure(figure: Figure, atlas: Atlas) -> dict[str, Any]:
    """A figure: its files, its settings and their hash, the required inputs of its files, and how a page draws it.

    A page can draw a figure of the judged claims (`of_claims`), and one that shows only metric tables (`of_rows`).
    """
    of = {
        "figure": figure.config.model_dump(mode="json", exclude={"caption", "title"}, exclude_defaults=True),
        "runs": {name: settings_of_run(run, atlas) for name, run in figure.runs.items()},
    }
    kind, outputs = figure.kind, [Path(file).name for file in figure.outputs]
    rows_alone = {"table"} <= figure.inputs.keys() <= {"table", "sets", "against"} and not figure.uses_r
    drawn = {"described": figure.described(), "outputs": outputs}
    return {
        "files": [file for file in figure.outputs if not file.endswith(".pdf")],
        "settings": fingerprint(of)[:LENGTH],
        "set": dict(leaves(of["figure"])),
        "drawn_from": sorted([name, value] for setting in figure.settings for name, value in setting.items()),
        "inputs": [file for files in figure.inputs.values() for file in files],
        **{key: drawn if wanted else None for key, wanted in (("of_claims", kind.claims), ("of_rows", rows_alone))},
    }
