# Pooling, subsetting and accumulating densities of traces.


rule pool:
    input:
        block_traces,
    output:
        f"{RESULTS}/{{study}}/{{run}}/split{{split}}/pool/pool.json",
    log:
        f"{RESULTS}/logs/pool/{{study}}/{{run}}/split{{split}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/pool/{{study}}/{{run}}/split{{split}}.tsv"
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    script:
        "../scripts/pool.py"


rule subset:
    input:
        pool=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/pool/pool.json",
        traces=block_traces,
    output:
        f"{RESULTS}/{{study}}/{{run}}/split{{split}}/subset/{{figure}}.parquet",
    log:
        f"{RESULTS}/logs/subset/{{study}}/{{run}}/split{{split}}/{{figure}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/subset/{{study}}/{{run}}/split{{split}}/{{figure}}.tsv"
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        subset=lambda w: figure_of(w).subset.model_dump(mode="json"),
    script:
        "../scripts/subset.py"


rule density_grid:
    input:
        pool=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/pool/pool.json",
        traces=block_traces,
    output:
        f"{RESULTS}/{{study}}/{{run}}/split{{split}}/grid/{{figure}}.npz",
    log:
        f"{RESULTS}/logs/density_grid/{{study}}/{{run}}/split{{split}}/{{figure}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/density_grid/{{study}}/{{run}}/split{{split}}/{{figure}}.tsv"
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        grid=lambda w: figure_of(w).grid.model_dump(mode="json"),
    script:
        "../scripts/density_grid.py"
