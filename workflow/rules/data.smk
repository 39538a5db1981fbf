# From the registry to scaled splits.


rule download:
    output:
        f"{RESULTS}/data/{{dataset}}/raw/{{file}}",
    log:
        f"{RESULTS}/logs/download/{{dataset}}/{{file}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/download/{{dataset}}/{{file}}.tsv"
    params:
        entry=lambda w: ATLAS.datasets[w.dataset].model_dump(mode="json"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=60,
    conda:
        "../../envs/python.yaml"
    retries: 1
    script:
        "../scripts/download.py"


rule prepare:
    input:
        raw_files,
    output:
        f"{RESULTS}/data/{{dataset}}/prepared.npz",
    log:
        f"{RESULTS}/logs/prepare/{{dataset}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/prepare/{{dataset}}.tsv"
    params:
        entry=lambda w: ATLAS.datasets[w.dataset].model_dump(mode="json"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    conda:
        "../../envs/python.yaml"
    script:
        "../scripts/prepare.py"


rule split:
    input:
        prepared,
    output:
        f"{RESULTS}/{{study}}/{{run}}/split{{split}}/split.npz",
    log:
        f"{RESULTS}/logs/split/{{study}}/{{run}}/split{{split}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/split/{{study}}/{{run}}/split{{split}}.tsv"
    params:
        split=lambda w: run_of(w).config.split.model_dump(mode="json"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../../envs/python.yaml"
    script:
        "../scripts/split.py"
