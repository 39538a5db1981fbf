# Predictions and functions of the draws, and the posterior on planes through them.


rule predict:
    """Predict the rows of a set with every draw of a pool."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        pool=rules.pool.output[0],
        other=INPUTS.other_data,
    output:
        f"{RUN}/predictive/{{set}}.npz",
    log:
        PATHS.log("predict/{study}/{run}/split{split}/{set}"),
    benchmark:
        PATHS.benchmark("predict/{study}/{run}/split{split}/{set}")
    conda:
        JAX_ENVIRONMENT
    threads: RESOURCES.prediction_threads
    resources:
        mem_mb=RESOURCES.prediction_memory,
        runtime=120,
        gpu=RESOURCES.gpus,
    params:
        **run_settings(INPUTS, "posterior"),
        **code_hash(code_of_predictions),
        **named("shift", INPUTS.shift),
        **named("limit", lambda w: INPUTS.run(w).config.split.first_test),
        **named("interval", INPUTS.interval),
    message:
        "Predicting the set {wildcards.set} with {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/predict.py"


rule functions:
    """Evaluate the functions of some draws of a pool, for figures."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        pool=rules.pool.output[0],
    output:
        f"{RUN}/functions/{{section}}.npz",
    log:
        PATHS.log("functions/{study}/{run}/split{split}/{section}"),
    benchmark:
        PATHS.benchmark("functions/{study}/{run}/split{split}/{section}")
    conda:
        JAX_ENVIRONMENT
    threads: RESOURCES.prediction_threads
    resources:
        mem_mb=RESOURCES.prediction_memory,
        runtime=60,
        gpu=RESOURCES.gpus,
    params:
        **run_settings(INPUTS, "posterior"),
        **named("settings", lambda w: FIGURES.section("functions", w.section)),
    message:
        "Evaluating functions of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/functions.py"


rule surface:
    """Evaluate a posterior on planes through draws of a run, for figures."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        pool=rules.pool.output[0],
        others=lambda w: list(INPUTS.other_pools(w, FIGURES.section("surface", w.section)).values()),
    output:
        f"{RUN}/surface/{{section}}.npz",
    log:
        PATHS.log("surface/{study}/{run}/split{split}/{section}"),
    benchmark:
        PATHS.benchmark("surface/{study}/{run}/split{split}/{section}")
    conda:
        JAX_ENVIRONMENT
    threads: RESOURCES.prediction_threads
    resources:
        mem_mb=RESOURCES.chain_memory,
        runtime=120,
        gpu=RESOURCES.start_gpus,
    params:
        **run_settings(INPUTS, "posterior"),
        **named("settings", lambda w: FIGURES.section("surface", w.section)),
        **named("others", lambda w: list(INPUTS.other_pools(w, FIGURES.section("surface", w.section)))),
    message:
        "Evaluating planes through draws of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/surface.py"


rule entropies:
    """Compare the forms of the entropy with the exact one at a fit of implicit variational inference, for figures."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        fit=f"{RUN}/block0/fit.npz",
    output:
        f"{RUN}/metrics/entropies.parquet",
    log:
        PATHS.log("entropies/{study}/{run}/split{split}"),
    benchmark:
        PATHS.benchmark("entropies/{study}/{run}/split{split}")
    conda:
        JAX_ENVIRONMENT
    threads: RESOURCES.prediction_threads
    resources:
        mem_mb=6000,
        runtime=60,
        gpu=RESOURCES.start_gpus,
    params:
        **run_settings(INPUTS, "posterior", "method"),
        **named("seed", lambda w: INPUTS.run(w).config.seed_of(int(w.split))),
    message:
        "Comparing entropies of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/entropies.py"
