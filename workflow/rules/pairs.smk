# Loss barriers between networks of two chains, and pruning: how networks predict without some of their weights.


rule barriers:
    """Compare networks of pairs of chains along lines, before and after alignment."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        pool=f"{RUN}/pool/pool.json",
    output:
        table=f"{RUN}/metrics/barriers.parquet",
        lines=f"{RUN}/metrics/lines.parquet",
        matches=f"{RUN}/metrics/matches.parquet",
    log:
        PATHS.log("barriers/{study}/{run}/split{split}"),
    benchmark:
        PATHS.benchmark("barriers/{study}/{run}/split{split}")
    conda:
        JAX_ENVIRONMENT
    threads: RESOURCES.prediction_threads
    resources:
        mem_mb=RESOURCES.prediction_memory,
        runtime=600,
        gpu=RESOURCES.gpus,
    params:
        **run_settings(INPUTS, "posterior"),
        **named(settings=INPUTS.evaluated("barriers"), initial=INPUTS.initial, seed=INPUTS.seed),
        **row_settings(INPUTS),
    message:
        "Comparing the chains of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"


rule pruning:
    """Predict with networks of aligned runs after setting some of their parameters to 0."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        frames=INPUTS.pruned("frame"),
        pools=INPUTS.pruned("pool"),
    output:
        table=f"{RUN}/metrics/pruning.parquet",
        curves=f"{RUN}/metrics/pruning_curves.parquet",
    log:
        PATHS.log("pruning/{study}/{run}/split{split}"),
    benchmark:
        PATHS.benchmark("pruning/{study}/{run}/split{split}")
    conda:
        JAX_ENVIRONMENT
    threads: RESOURCES.prediction_threads
    resources:
        mem_mb=RESOURCES.prediction_memory,
        runtime=240,
        gpu=RESOURCES.gpus,
    params:
        **run_settings(INPUTS, "posterior"),
        **named(settings=INPUTS.evaluated("pruning"), seed=INPUTS.seed),
        **row_settings(INPUTS),
        **named(chains=lambda w: INPUTS.run(w).config.chains),
    message:
        "Pruning networks for {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"
