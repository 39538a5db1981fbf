# From the registry to scaled splits.


rule download:
    output:
        f"{RESULTS}/data/{{dataset}}/raw/{{file}}",
    log:
        f"{RESULTS}/logs/download/{{dataset}}/{{file}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/download/{{dataset}}/{{file}}.tsv"
    retries: 1
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        entry=lambda w: ATLAS.datasets[w.dataset].recipe,
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
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        entry=lambda w: ATLAS.datasets[w.dataset].recipe,
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
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        split=lambda w: run_of(w).config.split.model_dump(mode="json"),
    script:
        "../scripts/split.py"
