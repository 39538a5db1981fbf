# Input functions and lookups only.


def run_of(wildcards):
    """The run that the wildcards name."""
    return ATLAS.studies[wildcards.study].runs[wildcards.run]


def raw_files(wildcards):
    """Downloaded files of a data set; none for bundled ones."""
    files = ATLAS.datasets[wildcards.dataset].files
    return [f"{RESULTS}/data/{wildcards.dataset}/raw/{file.name}" for file in files]


def prepared(wildcards):
    """The prepared data set of a run."""
    return f"{RESULTS}/data/{run_of(wildcards).config.dataset}/prepared.npz"


def block_traces(wildcards):
    """Traces of all blocks of a run and split."""
    blocks = range(run_of(wildcards).config.blocks)
    return expand(
        f"{RESULTS}/{{study}}/{{run}}/split{{split}}/block{{block}}/trace.zarr",
        block=blocks,
        **wildcards,
    )


def per_split(runs, file):
    """One file for each split of each run."""
    return [
        f"{RESULTS}/{run.study}/{run.name}/split{split}/{file}"
        for run in runs
        for split in range(run.config.split.count)
    ]


def figure_of(wildcards):
    """Settings of the figure that the wildcards name."""
    return ATLAS.studies[wildcards.study].config.figures[wildcards.figure]


def figure_named_runs(study, figure):
    """Names of runs and grids as the figure's settings give them, in order."""
    return list(ATLAS.studies[study].config.figures[figure].runs)


def figure_labels(study, figure):
    """Legend texts of a figure by name of run or grid."""
    return ATLAS.studies[study].config.figures[figure].labels


def figure_settings(study, figure):
    """What a figure's provenance records: its own settings and those of its runs."""
    runs = figure_runs(study, figure)
    return {
        "study": study,
        "figure": figure,
        "scale": SCALE,
        "runs": [run.name for run in runs],
        "own": ATLAS.studies[study].config.figures[figure].model_dump(mode="json"),
        "of_runs": {run.name: run.config.model_dump(mode="json") for run in runs},
    }


def figure_runs(study, figure):
    """Runs that a figure shows."""
    return ATLAS.studies[study].runs_of(ATLAS.studies[study].config.figures[figure].runs)


def figures_of(study):
    """Files of all figures of a study that can be made on this machine."""
    return [
        f"{RESULTS}/figures/{study}/{figure}.{kind}"
        for figure in ATLAS.studies[study].config.figures
        if not (MISSING_R and figure in R_FIGURES)
        for kind in ("pdf", "png", "csv")
    ]


def gpus(wildcards):
    """GPUs that a job asks for."""
    return 1 if ATLAS.settings.device == "gpu" else 0
