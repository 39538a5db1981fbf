# Where chains start: ensembles of optimised networks, or positions of other runs.


rule warmstart:
    """Train the networks from which a block of chains starts; runs that need the same networks share the file."""
    input:
        dataset=f"{RESULTS}/data/{{dataset}}/prepared.npz",
        split=INPUTS.split_of_start,
    output:
        destination=f"{RESULTS}/warmstarts/{{dataset}}-{{key}}.npz",
    log:
        PATHS.log("warmstart/{dataset}-{key}"),
    benchmark:
        PATHS.benchmark("warmstart/{dataset}-{key}")
    conda:
        JAX_ENVIRONMENT
    threads: RESOURCES.start_threads
    resources:
        mem_mb=RESOURCES.start_memory,
        runtime=120,
        gpu=RESOURCES.start_gpus,
    params:
        **code_hash_of_start(INPUTS),
        settings=lambda w: INPUTS.shared_starts[w.key].settings,
    message:
        "Training warm starts {wildcards.key} on {wildcards.dataset}"
    script:
        "../scripts/step.py"


rule start:
    """Take the starts of a block of chains from the draws, the starts or the fit of another run."""
    input:
        INPUTS.source_traces,
        pool=INPUTS.source_pool,
        arrays=INPUTS.source_arrays,
    output:
        destination=f"{RUN}/start/block{{block}}.npz",
    log:
        PATHS.log("start/{study}/{run}/split{split}/block{block}"),
    benchmark:
        PATHS.benchmark("start/{study}/{run}/split{split}/block{block}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        **named(draw=lambda w: INPUTS.run(w).config.start.draw, array=INPUTS.source_array),
        **named(members=lambda w: list(INPUTS.run(w).config.chain_ids(int(w.block)))),
    message:
        "Taking the starts of {wildcards.run} from its source"
    script:
        "../scripts/step.py"
