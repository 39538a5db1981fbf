# Scores and diagnostics of one run and split.


rule metrics:
    """Score a run's predictions of the test rows, and judge whether its draws can be trusted."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        pool=f"{RUN}/pool/pool.json",
        predictions=f"{RUN}/predictive/test.npz",
        virial=f"{RUN}/predictive/virial.npz",
        exchange=f"{RUN}/predictive/exchange.npz",
        timings=INPUTS.timings,
        source=INPUTS.source_table,
    output:
        **{name: f"{RUN}/metrics/{file}.parquet" for name, file in METRIC_FILES.items()},
    log:
        PATHS.log("metrics/{study}/{run}/split{split}"),
    benchmark:
        PATHS.benchmark("metrics/{study}/{run}/split{split}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        runtime=120,
    params:
        **score_settings(INPUTS),
        **row_settings(INPUTS),
        draws=INPUTS.scored_draws,
    message:
        "Scoring {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"


rule e_values:
    """Compare every draw of a run with its chain's warm start by an E-value on validation rows."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        traces=INPUTS.traces,
        starts=INPUTS.starts,
    output:
        destination=f"{RUN}/metrics/e_values.parquet",
    log:
        PATHS.log("e_values/{study}/{run}/split{split}"),
    benchmark:
        PATHS.benchmark("e_values/{study}/{run}/split{split}")
    conda:
        JAX_ENVIRONMENT
    threads: RESOURCES.prediction_threads
    resources:
        mem_mb=3000,
        runtime=60,
        gpu=RESOURCES.gpus,
    params:
        **run_settings(INPUTS, "posterior"),
        **named(alpha=lambda w: INPUTS.run(w).config.e_value_level),
    message:
        "E-values of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"


rule score_sets:
    """Score the predictions of all shifted and out-of-distribution sets of a run."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        predictions=f"{RUN}/predictive/sets",
        test=f"{RUN}/predictive/test.npz",
    output:
        destination=f"{RUN}/metrics/sets.parquet",
    log:
        PATHS.log("score_sets/{study}/{run}/split{split}"),
    benchmark:
        PATHS.benchmark("score_sets/{study}/{run}/split{split}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    params:
        **named(sets=INPUTS.sets, published=lambda w: list(ATLAS.studies[w.study].config.published)),
        **row_settings(INPUTS),
    message:
        "Scoring {wildcards.run} on its further sets (split {wildcards.split})"
    script:
        "../scripts/step.py"


rule score_against:
    """Compare a run's predictions with a reference: published ones, or those of another run."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        test=f"{RUN}/predictive/test.npz",
        reference=INPUTS.reference_predictions,
        shifted=INPUTS.shifted_predictions,
        judged=INPUTS.reference_table,
    output:
        destination=f"{RUN}/metrics/against/{{reference}}.parquet",
    log:
        PATHS.log("score_against/{study}/{run}/split{split}/{reference}"),
    benchmark:
        PATHS.benchmark("score_against/{study}/{run}/split{split}/{reference}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    params:
        **named(name=lambda w: w.reference, published=INPUTS.is_published, shifts=INPUTS.compared_shifts),
        **named(remark=INPUTS.reference_remark),
        **row_settings(INPUTS),
    message:
        "Comparing {wildcards.run} with {wildcards.reference} (split {wildcards.split})"
    script:
        "../scripts/step.py"


rule score_referee:
    """Compare a run with its referee, the same chains continued with a Metropolis test."""
    input:
        pool=f"{RUN}/pool/pool.json",
        predictions=f"{RUN}/predictive/test.npz",
        referee_pool=INPUTS.of_referee("pool/pool.json"),
        referee_predictions=INPUTS.of_referee("predictive/test.npz"),
    output:
        table=f"{RUN}/metrics/referee.parquet",
        chains=f"{RUN}/metrics/referee_chains.parquet",
    log:
        PATHS.log("score_referee/{study}/{run}/split{split}"),
    benchmark:
        PATHS.benchmark("score_referee/{study}/{run}/split{split}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    params:
        **row_settings(INPUTS),
    message:
        "Comparing {wildcards.run} with its referee (split {wildcards.split})"
    script:
        "../scripts/step.py"
