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
