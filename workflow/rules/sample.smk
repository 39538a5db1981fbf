# Markov chains. A job that was stopped goes on from its last checkpoint.


rule sample:
    input:
        dataset=prepared,
        split=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/split.npz",
        start=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/warmstart/block{{block}}.npz",
    output:
        trace=directory(f"{RESULTS}/{{study}}/{{run}}/split{{split}}/block{{block}}/trace.zarr"),
        timing=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/block{{block}}/timing.json",
    log:
        f"{RESULTS}/logs/sample/{{study}}/{{run}}/split{{split}}/block{{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/sample/{{study}}/{{run}}/split{{split}}/block{{block}}.tsv"
    conda:
        JAX_ENVIRONMENT
    threads: chain_threads
    resources:
        mem_mb=block_memory,
        runtime=720,
        gpu=gpus,
    params:
        posterior=lambda w: run_of(w).config.posterior.model_dump(mode="json"),
        method=lambda w: run_of(w).config.method.model_dump(mode="json"),
        seed=lambda w: run_of(w).config.seed_of(int(w.split)),
        stopping=lambda w: run_of(w).config.model_dump(mode="json")["stopping"],
    script:
        "../scripts/sample.py"
