# Input functions and lookups only.

JAX_ENVIRONMENT = f"../../envs/{'python-gpu' if ATLAS.settings.device == 'gpu' else 'python'}.yaml"


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


def tables_of(study):
    """Tables of all runs of a study: on the test rows, on further sets, and against references."""
    files = []
    for run in ATLAS.studies[study].runs.values():
        evaluate = run.config.evaluate
        names = ["metrics", *(f"sets/{name}" for name in evaluate.sets), *(f"against/{r}" for r in evaluate.references)]
        files += [path for name in names for path in per_split([run], f"metrics/{name}.parquet")]
    return files


def other_data(wildcards):
    """What a set is taken from, if not from the run's data: another prepared data set, or published corruptions."""
    if wildcards.set.startswith(OUTSIDE):
        return f"{RESULTS}/data/{wildcards.set.removeprefix(OUTSIDE)}/prepared.npz"
    if wildcards.set.startswith(PUBLISHED_SHIFTS):
        (file,) = ATLAS.datasets[PUBLISHED_SHIFTS].files
        return f"{RESULTS}/data/{PUBLISHED_SHIFTS}/raw/{file.name}"
    return []


def is_published(wildcards):
    """Whether a reference is one of the registry, not a run."""
    return wildcards.reference not in ATLAS.studies[wildcards.study].runs


def reference_predictions(wildcards):
    """Published predictions, or those of another run for its test rows."""
    if is_published(wildcards):
        return f"{RESULTS}/data/{wildcards.reference}/prepared.npz"
    return f"{RESULTS}/{wildcards.study}/{wildcards.reference}/split{wildcards.split}/predictive/test.npz"


def identity(wildcards):
    """First columns of a run's rows in the tables."""
    run = run_of(wildcards).config
    return {
        "study": wildcards.study,
        "run": wildcards.run,
        "scale": SCALE,
        "split": int(wildcards.split),
        "dataset": run.dataset,
        "model": run.model.label,
        "method": run.method.kind,
    }


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


def gpus(wildcards):
    """GPUs that a job asks for."""
    return run_of(wildcards).config.data_shards if ATLAS.settings.device == "gpu" else 0


def chain_threads(wildcards):
    """Cores of a job that runs a block of chains: one for each chain and device that shares its data, at most 16; 4
    beside a GPU. At demo scale only the devices count, since such a job mostly compiles, on one core."""
    run = run_of(wildcards).config
    if SCALE == "demo":
        return run.data_shards
    return 4 if ATLAS.settings.device == "gpu" else min(run.block_size * run.data_shards, 16)


def block_memory(wildcards, input, threads):
    """Megabytes that a job with a block of chains may need. On a CPU each device holds the rows as numbers of 4 bytes,
    where the prepared file may have single bytes, twice while they are put there, and what a pass over them keeps."""
    devices = 1 if ATLAS.settings.device == "gpu" else threads
    kept = min(run_of(wildcards).config.gradient_memory_mb, 1000 * input.size_mb)
    return int(4000 + devices * (8 * input.size_mb + kept))


PREDICTION_THREADS = 1 if SCALE == "demo" else 4


def overviews_of(study):
    """Tables that pool and list the runs of a study."""
    return [f"{RESULTS}/tables/{study}-{file}" for file in ("summary.parquet", "summary.csv", "runs.csv")]


def claimed_figures():
    """PNG of each figure that a claim names and that can be made here, by `study/figure`."""
    named = {(study, c.figure) for study, claims in ATLAS.claims.items() for c in claims.claims.values() if c.figure}
    paths = {f"{study}/{figure}": f"{RESULTS}/figures/{study}/{figure}.png" for study, figure in sorted(named)}
    made = {path for study in ATLAS.claims for path in figures_of(study)}
    return {name: path for name, path in paths.items() if path in made}
