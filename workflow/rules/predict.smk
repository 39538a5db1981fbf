# Predictions and functions of the draws, and the posterior on planes through them.


rule predict:
    """Predict the test rows with every draw of a pool; measure gradients at draws, and draws with exchanged layers."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        pool=f"{RUN}/pool/pool.json",
    output:
        destination=f"{RUN}/predictive/test.npz",
        virial=f"{RUN}/predictive/virial.npz",
        exchange=f"{RUN}/predictive/exchange.npz",
    log:
        PATHS.log("predict/{study}/{run}/split{split}/test"),
    benchmark:
        PATHS.benchmark("predict/{study}/{run}/split{split}/test")
    conda:
        JAX_ENVIRONMENT
    threads: RESOURCES.prediction_threads
    resources:
        mem_mb=RESOURCES.prediction_memory,
        runtime=120,
        gpu=RESOURCES.gpus,
    params:
        **run_settings(INPUTS, "posterior"),
        **code_hash_of_predictions(INPUTS),
        draws=INPUTS.scored_draws,
    message:
        "Predicting the test rows with {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"


rule predict_sets:
    """Predict the rows of all further sets of a run with every draw of a pool, one set after another."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        pool=f"{RUN}/pool/pool.json",
        others=INPUTS.other_data,
    output:
        destination=directory(f"{RUN}/predictive/sets"),
    log:
        PATHS.log("predict_sets/{study}/{run}/split{split}"),
    benchmark:
        PATHS.benchmark("predict_sets/{study}/{run}/split{split}")
    conda:
        JAX_ENVIRONMENT
    threads: RESOURCES.prediction_threads
    resources:
        mem_mb=RESOURCES.prediction_memory,
        runtime=240,
        gpu=RESOURCES.gpus,
    params:
        **run_settings(INPUTS, "posterior"),
        **code_hash_of_predictions(INPUTS),
        **named(sets=INPUTS.sets, elsewhere=INPUTS.sets_elsewhere, intervals=INPUTS.intervals),
        rows=lambda w: {"limit": INPUTS.run(w).config.split.first_test, **INPUTS.scored_draws(w)},
    message:
        "Predicting the further sets of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"


rule functions:
    """Evaluate the functions of some draws of a pool, for figures."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        pool=f"{RUN}/pool/pool.json",
    output:
        destination=f"{RUN}/functions/{{section}}.npz",
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
        **named(settings=lambda w: FIGURES.section("functions", w.section)),
    message:
        "Evaluating functions of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"


rule surface:
    """Evaluate a posterior on planes through draws of a run, for figures."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        pool=f"{RUN}/pool/pool.json",
        pools=lambda w: list(INPUTS.other_pools(w, FIGURES.section("surface", w.section)).values()),
    output:
        destination=f"{RUN}/surface/{{section}}.npz",
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
        **named(settings=lambda w: FIGURES.section("surface", w.section)),
        **named(others=lambda w: list(INPUTS.other_pools(w, FIGURES.section("surface", w.section)))),
    message:
        "Evaluating planes through draws of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"


rule entropies:
    """Compare the forms of the entropy with the exact one at a fit of implicit variational inference, for figures."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        fit=f"{RUN}/block0/fit.npz",
    output:
        destination=f"{RUN}/metrics/entropies.parquet",
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
        **named(seed=INPUTS.seed),
    message:
        "Comparing entropies of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"
