# Input functions and lookups of figures, diagnostics pages, claims and galleries.
from bnn_atlas.config.figures import FIGURES
from bnn_atlas.figures.sources import figure_sources


def figure_of(wildcards):
    """Settings of the figure that the wildcards name."""
    return ATLAS.studies[wildcards.study].figures[wildcards.figure]


def drawn_figures():
    """Study and name of each figure that the studies' files ask for, apart from tables."""
    return [(study, figure) for study, figure in _figures() if not FIGURES[study][figure].latex]


def latex_tables():
    """Study and name of each figure that is a table."""
    return [(study, figure) for study, figure in _figures() if FIGURES[study][figure].latex]


def _figures():
    return [(name, figure) for name, study in ATLAS.studies.items() for figure in study.figures]


def figure_inputs(study, figure):
    """Files that a figure shows: for each input, one of each run and split."""
    runs = figure_runs(study, figure)
    return {name: per_split(runs, file) for name, file in FIGURES[study][figure].inputs.items()}


def figure_code(study, figure):
    """Files whose change draws a figure again."""
    made = FIGURES[study][figure]
    r_files = [f"Rcode/{file}.R" for file in ("theme", "draw", *made.r)] if made.r else []
    return [*code_of(made.module), *r_files]


def code_of(module):
    """Python files whose change draws a figure of this module again."""
    return [str(file.relative_to(workflow.basedir)) for file in figure_sources(module)]


def shown_runs(study, figure):
    """What a figure is told of each run and split that it shows."""
    labels = ATLAS.studies[study].labels_of(ATLAS.studies[study].figures[figure])
    return [
        {
            "run": run.name,
            "entry": run.entry,
            "label": labels[run.name],
            "point": run.point,
            "dataset": run.config.dataset,
            "dataset_title": ATLAS.datasets[run.config.dataset].title or run.config.dataset.replace("_", " "),
            "task": ATLAS.datasets[run.config.dataset].task,
            "model": run.config.model.label,
            "hidden": list(getattr(run.config.model, "hidden", ())),
            "method": run.config.method.kind,
            "likelihood": run.config.likelihood.kind,
            "prior_sd": run.config.prior_sd,
            "split": split,
            "chains": run.config.chains,
        }
        for run in figure_runs(study, figure)
        for split in range(run.config.split.count)
    ]


def figure_settings(study, figure):
    """What a figure's provenance records: its own settings and those of its runs."""
    runs = figure_runs(study, figure)
    return {
        "study": study,
        "figure": figure,
        "scale": SCALE,
        "reductions": {run.entry: list(run.reductions) for run in runs},
        "runs": [run.name for run in runs],
        "own": ATLAS.studies[study].figures[figure].model_dump(mode="json"),
        "of_runs": {run.name: run.config.model_dump(mode="json", exclude={"evaluate"}) for run in runs},
    }


def figure_runs(study, figure):
    """Runs that a figure shows."""
    return ATLAS.studies[study].runs_of(ATLAS.studies[study].figures[figure].runs)


def figures_without_r(study):
    """Figures of a study that cannot be made because R is missing."""
    figures = ATLAS.studies[study].figures
    return [figure for figure in figures if MISSING_R and FIGURES[study][figure].r]


def figures_of(study):
    """Files of all figures of a study that can be made on this machine."""
    return [
        f"{RESULTS}/figures/{study}/{figure}.{kind}"
        for figure in ATLAS.studies[study].figures
        if figure not in figures_without_r(study)
        for kind in FIGURES[study][figure].endings
    ]


def gallery_figures(wildcards):
    """Files of the figures of a study that its gallery shows."""
    return [path for path in figures_of(wildcards.study) if not path.endswith(".pdf")]


def gallery_captions(wildcards):
    """Captions of the figures of a study, as far as there are any."""
    names = dict.fromkeys(Path(file).stem for file in gallery_figures(wildcards))
    files = [f"workflow/report/{name}.rst" for name in names]
    return [file for file in files if Path(workflow.basedir, file).is_file()]


def diagnostics_of(study):
    """Files of the pages of a study, and its table of rates."""
    pages = [
        f"{RESULTS}/figures/{study}/diagnostics/{run.name}-split{split}.{kind}"
        for run in ATLAS.studies[study].runs.values()
        for split in range(run.config.split.count)
        for kind in ("pdf", "png", "csv")
    ]
    return [*pages, f"{RESULTS}/tables/{study}-rates.parquet"]


def page_settings(wildcards):
    """What a page's provenance records: the run's settings."""
    run = run_of(wildcards)
    return {
        "study": wildcards.study,
        "figure": "diagnostics",
        "scale": SCALE,
        "reductions": {run.entry: list(run.reductions)},
        "run": run.name,
        "split": int(wildcards.split),
        "of_run": run.config.model_dump(mode="json", exclude={"evaluate"}),
    }


def claimed_figures():
    """PNG of each figure that a claim names and that can be made here, by `study/figure`."""
    named = {(study, c.figure) for study, claims in ATLAS.claims.items() for c in claims.claims.values() if c.figure}
    paths = {f"{study}/{figure}": f"{RESULTS}/figures/{study}/{figure}.png" for study, figure in sorted(named)}
    made = {path for study in ATLAS.claims for path in figures_of(study)}
    return {name: path for name, path in paths.items() if path in made}
