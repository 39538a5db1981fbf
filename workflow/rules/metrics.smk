# Scores and diagnostics, and their tables.


rule metrics:
    input:
        dataset=prepared,
        split=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/split.npz",
        pool=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/pool/pool.json",
        traces=block_traces,
        timings=lambda w: [f"{trace.removesuffix('trace.zarr')}timing.json" for trace in block_traces(w)],
    output:
        table=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/metrics/metrics.parquet",
        rates=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/metrics/rates.parquet",
        parameters=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/metrics/parameters.parquet",
        functions=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/metrics/functions.parquet",
        chains=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/metrics/chains.parquet",
        samplers=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/metrics/samplers.parquet",
        curves=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/metrics/curves.parquet",
    log:
        f"{RESULTS}/logs/metrics/{{study}}/{{run}}/split{{split}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/metrics/{{study}}/{{run}}/split{{split}}.tsv"
    conda:
        JAX_ENVIRONMENT
    threads: 4
    resources:
        mem_mb=4000,
        runtime=120,
        gpu=gpus,
    params:
        posterior=lambda w: run_of(w).config.posterior.model_dump(mode="json"),
        batch_rows=lambda w: getattr(run_of(w).config.method, "batch_size", None),
        identity=lambda w: {
            "study": w.study,
            "run": w.run,
            "scale": SCALE,
            "split": int(w.split),
            "dataset": run_of(w).config.dataset,
            "model": run_of(w).config.model.label,
            "method": run_of(w).config.method.kind,
        },
    script:
        "../scripts/metrics.py"


rule table:
    input:
        lambda w: per_split(ATLAS.studies[w.study].runs.values(), "metrics/metrics.parquet"),
    output:
        f"{RESULTS}/tables/{{study}}.parquet",
    log:
        f"{RESULTS}/logs/table/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/table/{{study}}.tsv"
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    script:
        "../scripts/table.py"
