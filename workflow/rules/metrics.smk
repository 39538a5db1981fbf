# Predictions, scores and diagnostics, and their tables.


rule predict:
    input:
        dataset=prepared,
        split=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/split.npz",
        pool=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/pool/pool.json",
        traces=block_traces,
        other=other_data,
    output:
        f"{RESULTS}/{{study}}/{{run}}/split{{split}}/predictive/{{set}}.npz",
    log:
        f"{RESULTS}/logs/predict/{{study}}/{{run}}/split{{split}}/{{set}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/predict/{{study}}/{{run}}/split{{split}}/{{set}}.tsv"
    conda:
        JAX_ENVIRONMENT
    threads: PREDICTION_THREADS
    resources:
        mem_mb=lambda w: int(3000 + run_of(w).config.gradient_memory_mb),
        runtime=120,
        gpu=gpus,
    params:
        posterior=lambda w: run_of(w).config.posterior.model_dump(mode="json"),
        shift=lambda w: None if w.set == TEST or w.set.startswith(OUTSIDE) else w.set,
        limit=lambda w: run_of(w).config.split.first_test,
    script:
        "../scripts/predict.py"


rule functions:
    input:
        dataset=prepared,
        split=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/split.npz",
        pool=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/pool/pool.json",
        traces=block_traces,
    output:
        f"{RESULTS}/{{study}}/{{run}}/split{{split}}/functions/{{figure}}.npz",
    log:
        f"{RESULTS}/logs/functions/{{study}}/{{run}}/split{{split}}/{{figure}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/functions/{{study}}/{{run}}/split{{split}}/{{figure}}.tsv"
    conda:
        JAX_ENVIRONMENT
    threads: PREDICTION_THREADS
    resources:
        mem_mb=lambda w: int(3000 + run_of(w).config.gradient_memory_mb),
        runtime=60,
        gpu=gpus,
    params:
        posterior=lambda w: run_of(w).config.posterior.model_dump(mode="json"),
        settings=lambda w: figure_of(w).functions.model_dump(mode="json"),
    script:
        "../scripts/functions.py"


rule metrics:
    input:
        dataset=prepared,
        split=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/split.npz",
        pool=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/pool/pool.json",
        traces=block_traces,
        predictions=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/predictive/test.npz",
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
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        batch_rows=lambda w: getattr(run_of(w).config.method, "batch_size", None),
        identity=identity,
    script:
        "../scripts/metrics.py"


rule e_values:
    input:
        dataset=prepared,
        split=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/split.npz",
        traces=block_traces,
        starts=lambda w: expand(
            f"{RESULTS}/{{study}}/{{run}}/split{{split}}/warmstart/block{{block}}.npz",
            block=range(run_of(w).config.blocks),
            **w,
        ),
    output:
        f"{RESULTS}/{{study}}/{{run}}/split{{split}}/metrics/e_values.parquet",
    log:
        f"{RESULTS}/logs/e_values/{{study}}/{{run}}/split{{split}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/e_values/{{study}}/{{run}}/split{{split}}.tsv"
    conda:
        JAX_ENVIRONMENT
    threads: PREDICTION_THREADS
    resources:
        mem_mb=3000,
        runtime=60,
        gpu=gpus,
    params:
        posterior=lambda w: run_of(w).config.posterior.model_dump(mode="json"),
        alpha=lambda w: run_of(w).config.e_value_level,
    script:
        "../scripts/e_values.py"


rule score_set:
    input:
        dataset=prepared,
        split=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/split.npz",
        predictions=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/predictive/{{set}}.npz",
        test=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/predictive/test.npz",
    output:
        f"{RESULTS}/{{study}}/{{run}}/split{{split}}/metrics/sets/{{set}}.parquet",
    log:
        f"{RESULTS}/logs/score_set/{{study}}/{{run}}/split{{split}}/{{set}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/score_set/{{study}}/{{run}}/split{{split}}/{{set}}.tsv"
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        name="{set}",
        identity=identity,
    script:
        "../scripts/score_set.py"


rule score_against:
    input:
        dataset=prepared,
        split=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/split.npz",
        test=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/predictive/test.npz",
        reference=reference_predictions,
    output:
        f"{RESULTS}/{{study}}/{{run}}/split{{split}}/metrics/against/{{reference}}.parquet",
    log:
        f"{RESULTS}/logs/score_against/{{study}}/{{run}}/split{{split}}/{{reference}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/score_against/{{study}}/{{run}}/split{{split}}/{{reference}}.tsv"
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        name="{reference}",
        published=is_published,
        identity=identity,
    script:
        "../scripts/score_against.py"


rule table:
    input:
        lambda w: tables_of(w.study),
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
