# Pooling traces, taking parameters and draws out of them, and accumulating densities.


rule pool:
    """List the traces of all blocks of a run as one pool; draws are not copied."""
    input:
        traces=INPUTS.traces,
    output:
        destination=f"{RUN}/pool/pool.json",
    log:
        PATHS.log("pool/{study}/{run}/split{split}"),
    benchmark:
        PATHS.benchmark("pool/{study}/{run}/split{split}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    message:
        "Pooling the chains of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"


rule subset:
    """Take chosen parameters and draws out of a pool, for figures."""
    input:
        pool=f"{RUN}/pool/pool.json",
    output:
        destination=f"{RUN}/subset/{{section}}.parquet",
    log:
        PATHS.log("subset/{study}/{run}/split{split}/{section}"),
    benchmark:
        PATHS.benchmark("subset/{study}/{run}/split{split}/{section}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        runtime=60,
    params:
        **named(subset=lambda w: FIGURES.section("subset", w.section)),
    message:
        "Taking a subset of the draws of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"


rule layer_traces:
    """Take the first two weights and biases of each layer out of a pool, all chains and draws."""
    input:
        pool=f"{RUN}/pool/pool.json",
    output:
        destination=f"{RUN}/traces.npz",
    log:
        PATHS.log("layer_traces/{study}/{run}/split{split}"),
    benchmark:
        PATHS.benchmark("layer_traces/{study}/{run}/split{split}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        runtime=60,
    message:
        "Taking two traces per layer of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"


rule traces:
    """Write two traces per layer of the runs, entries or studies that `what` names, as traces.npz next to their draws."""
    input:
        INPUTS.layer_traces,
    message:
        "The traces are written"


rule density_grid:
    """Accumulate bivariate marginal densities of a pool, for figures."""
    input:
        pool=f"{RUN}/pool/pool.json",
    output:
        destination=f"{RUN}/grid/{{section}}.npz",
    log:
        PATHS.log("density_grid/{study}/{run}/split{split}/{section}"),
    benchmark:
        PATHS.benchmark("density_grid/{study}/{run}/split{split}/{section}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        runtime=60,
    params:
        **named(grid=lambda w: FIGURES.section("grid", w.section)),
    message:
        "Accumulating marginal densities of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"
