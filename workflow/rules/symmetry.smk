# Draws of a run with their hidden units in one order.
ALIGNED = f"{RUN}/alignment/{{alignment}}"


wildcard_constraints:
    alignment=NAME,


rule align:
    """Align the draws of a run; a job that was stopped continues from its last checkpoint."""
    input:
        unpack(INPUTS.of_alignment),
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        pool=f"{RUN}/pool/pool.json",
    output:
        frame=f"{ALIGNED}/frame.npz",
        draws=f"{ALIGNED}/draws.npz",
    log:
        PATHS.log("align/{study}/{run}/split{split}/{alignment}"),
    benchmark:
        PATHS.benchmark("align/{study}/{run}/split{split}/{alignment}")
    conda:
        JAX_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=720,
        gpu=0,
    params:
        **run_settings(INPUTS, "posterior"),
        **named(alignment=INPUTS.aligned_by, centre=lambda w: INPUTS.run(w).config.method.centre),
    message:
        "Aligning the draws of {wildcards.run} (split {wildcards.split}): {wildcards.alignment}"
    script:
        "../scripts/step.py"


rule score_alignment:
    """Measure the draws of a run as they are, aligned, and in the controls."""
    input:
        draws=f"{ALIGNED}/draws.npz",
    output:
        destination=f"{ALIGNED}/metrics.parquet",
    log:
        PATHS.log("score_alignment/{study}/{run}/split{split}/{alignment}"),
    benchmark:
        PATHS.benchmark("score_alignment/{study}/{run}/split{split}/{alignment}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        **named(name=lambda w: w.alignment),
        **row_settings(INPUTS),
    message:
        "Scoring the alignment {wildcards.alignment} of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"
