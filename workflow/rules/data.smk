# From the registry to scaled splits.


rule download:
    """Download one registered file, or copy it from the mirror or the cache, and check it."""
    output:
        destination=f"{RESULTS}/data/{{dataset}}/raw/{{file}}",
    log:
        PATHS.log("download/{dataset}/{file}"),
    benchmark:
        PATHS.benchmark("download/{dataset}/{file}")
    retries: 1
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        **told(root=lambda w: str(workflow.basedir)),
        **told(file=lambda w: w.file, mirror=lambda w: config["mirror"], cache=lambda w: config["cache"]),
        **named(entry=lambda w: ATLAS.datasets[w.dataset].recipe),
    message:
        "Fetching {wildcards.file} of {wildcards.dataset}"
    script:
        "../scripts/step.py"


rule prepare:
    """Turn the raw files of a data set into named arrays."""
    input:
        files=INPUTS.raw_files,
    output:
        destination=f"{RESULTS}/data/{{dataset}}/prepared.npz",
    log:
        PATHS.log("prepare/{dataset}"),
    benchmark:
        PATHS.benchmark("prepare/{dataset}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        **told(dataset=lambda w: w.dataset),
        **named(entry=lambda w: ATLAS.datasets[w.dataset].recipe),
    message:
        "Preparing {wildcards.dataset}"
    script:
        "../scripts/step.py"


rule split:
    """Divide the rows of a data set into training, validation and test rows; runs with the same settings share the file."""
    input:
        dataset=f"{RESULTS}/data/{{dataset}}/prepared.npz",
    output:
        destination=f"{RESULTS}/splits/{{dataset}}-{{key}}/split{{split}}.npz",
    log:
        PATHS.log("split/{dataset}-{key}/split{split}"),
    benchmark:
        PATHS.benchmark("split/{dataset}-{key}/split{split}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        **told(number=lambda w: int(w.split)),
        **named(split=lambda w: INPUTS.shared_splits[w.key].config.settings),
    message:
        "Splitting {wildcards.dataset} (split {wildcards.split})"
    script:
        "../scripts/step.py"
