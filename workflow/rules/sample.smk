# Draws of every method.


rule sample:
    """Draw a block of chains with the run's method; a job that was stopped continues from its last checkpoint."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        start=INPUTS.start,
    output:
        f"{RUN}/block{{block}}/timing.json",
        f"{RUN}/block{{block}}/fit.npz",
        trace=directory(f"{RUN}/block{{block}}/trace.zarr"),
    log:
        PATHS.log("sample/{study}/{run}/split{split}/block{block}"),
    benchmark:
        PATHS.benchmark("sample/{study}/{run}/split{split}/block{block}")
    conda:
        JAX_ENVIRONMENT
    threads: RESOURCES.chain_threads
    resources:
        mem_mb=RESOURCES.chain_memory,
        runtime=720,
        gpu=RESOURCES.gpus,
    params:
        **run_settings(INPUTS, "posterior", "method", "stopping"),
        **code_hash_of_run(INPUTS),
        **told(sections=INPUTS.sections),
        seed=INPUTS.of_block,
    message:
        "Sampling {wildcards.run} (split {wildcards.split}, block {wildcards.block})"
    script:
        "../scripts/step.py"
