# Runs as archives that others can use.


rule pack:
    """Pack a run and split into one archive: draws, predictions, labels, order of rows, settings and convergence."""
    input:
        dataset=INPUTS.dataset,
        split=INPUTS.split,
        pool=f"{RUN}/pool/pool.json",
        predictions=f"{RUN}/predictive/test.npz",
        metrics=f"{RUN}/metrics/metrics.parquet",
    output:
        destination=f"{RESULTS}/export/{{study}}/{{run}}-split{{split}}.zip",
    log:
        PATHS.log("pack/{study}/{run}/split{split}"),
    benchmark:
        PATHS.benchmark("pack/{study}/{run}/split{split}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        runtime=60,
    params:
        *run_settings(INPUTS, *EXPORTED).values(),
        **told(settings=lambda w: exported_settings(INPUTS, w)),
        **named(about=INPUTS.described),
    message:
        "Packing {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"


rule export:
    """Pack the runs that the studies name under `export` into archives, one for each split."""
    input:
        INPUTS.archives,
    message:
        "The archives are made"
