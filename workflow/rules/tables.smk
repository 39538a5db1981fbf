# Tables over the runs of a study: pooled over seeds and splits, and the runs themselves.
from bnn_atlas.config.runs.expansion import run_rows
from bnn_atlas.provenance import fingerprint


rule tables:
    """Make the tables of all studies: scores of all runs, pooled, and the runs themselves."""
    input:
        expand(f"{RESULTS}/tables/{{study}}.parquet", study=ATLAS.studies),
        [path for study in ATLAS.studies for path in PATHS.overviews(study)],
    message:
        "The tables are made"


rule table:
    """Put the tables of all runs of a study into one."""
    input:
        tables=INPUTS.tables,
    output:
        destination=f"{RESULTS}/tables/{{study}}.parquet",
    log:
        PATHS.log("table/{study}"),
    benchmark:
        PATHS.benchmark("table/{study}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    message:
        "Collecting the tables of {wildcards.study}"
    script:
        "../scripts/step.py"


rule summary:
    """Pool a study's scores over seeds and splits."""
    input:
        table=f"{RESULTS}/tables/{{study}}.parquet",
    output:
        parquet=f"{RESULTS}/tables/{{study}}-summary.parquet",
        csv=report(
            f"{RESULTS}/tables/{{study}}-summary.csv",
            caption="../report/summary.rst",
            category="{study}",
            subcategory="tables",
            labels={"table": "scores, pooled"},
        ),
    log:
        PATHS.log("table/{study}-summary"),
    benchmark:
        PATHS.benchmark("table/{study}-summary")
    conda:
        "../../envs/python.yaml"
    threads: 1
    params:
        **named(runs=lambda w: INPUTS.grid_points(w.study)),
    message:
        "Pooling the scores of {wildcards.study} over seeds and splits"
    script:
        "../scripts/step.py"


rule runs_table:
    """List the runs of a study with their settings."""
    output:
        csv=f"{RESULTS}/tables/{{study}}-runs.csv",
    log:
        PATHS.log("table/{study}-runs"),
    benchmark:
        PATHS.benchmark("table/{study}-runs")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=10,
    params:
        # The rows are long, so only their hash is compared.
        lambda w: {"runs": fingerprint(run_rows(ATLAS.studies[w.study]))[:12]},
        **told(rows=lambda w: run_rows(ATLAS.studies[w.study])),
    message:
        "Listing the runs of {wildcards.study}"
    script:
        "../scripts/step.py"


# It has no outputs that Snakemake knows, and so runs whenever it is asked for.
rule check:
    """Compare all results with their records, and list what is damaged, missing, unrecorded or left over; runs nothing."""
    log:
        PATHS.log("check"),
    conda:
        "../../envs/python.yaml"
    threads: 1
    params:
        **told(results=lambda w: RESULTS, mend=lambda w: config["mend"]),
    message:
        "Comparing all results with their records"
    script:
        "../scripts/step.py"
