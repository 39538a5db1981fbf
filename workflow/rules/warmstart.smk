# Ensembles of optimised networks, the starts of the chains.


rule warmstart:
    input:
        dataset=prepared,
        split=f"{RESULTS}/{{study}}/{{run}}/split{{split}}/split.npz",
    output:
        f"{RESULTS}/{{study}}/{{run}}/split{{split}}/warmstart/block{{block}}.npz",
    log:
        f"{RESULTS}/logs/warmstart/{{study}}/{{run}}/split{{split}}/block{{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/warmstart/{{study}}/{{run}}/split{{split}}/block{{block}}.tsv"
    conda:
        JAX_ENVIRONMENT
    threads: chain_threads
    resources:
        mem_mb=block_memory,
        runtime=120,
        gpu=gpus,
    params:
        posterior=lambda w: run_of(w).config.posterior.model_dump(mode="json"),
        training=lambda w: run_of(w).config.warmstart and run_of(w).config.warmstart.model_dump(mode="json"),
        members=lambda w: list(run_of(w).config.chain_ids(int(w.block))),
        seed=lambda w: run_of(w).config.seed_of(int(w.split)),
    script:
        "../scripts/warmstart.py"
