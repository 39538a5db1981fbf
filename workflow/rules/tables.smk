# Tables over the runs of a study: pooled over seeds and splits, the runs themselves, and LaTeX tables.
from bnn_atlas.config.overview import run_rows


rule tables:
    input:
        expand(f"{RESULTS}/tables/{{study}}.parquet", study=ATLAS.studies),
        [path for study in ATLAS.studies for path in overviews_of(study)],


rule summary:
    input:
        f"{RESULTS}/tables/{{study}}.parquet",
    output:
        parquet=f"{RESULTS}/tables/{{study}}-summary.parquet",
        csv=report(f"{RESULTS}/tables/{{study}}-summary.csv", caption="../report/summary.rst", category="{study}"),
    log:
        f"{RESULTS}/logs/table/{{study}}-summary.log",
    benchmark:
        f"{RESULTS}/benchmarks/table/{{study}}-summary.tsv"
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        runs=lambda w: {
            name: {"entry": run.entry, "point": run.point} for name, run in ATLAS.studies[w.study].runs.items()
        },
    script:
        "../scripts/summary.py"


rule runs_table:
    output:
        f"{RESULTS}/tables/{{study}}-runs.csv",
    log:
        f"{RESULTS}/logs/table/{{study}}-runs.log",
    benchmark:
        f"{RESULTS}/benchmarks/table/{{study}}-runs.tsv"
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=10,
    params:
        rows=lambda w: run_rows(ATLAS.studies[w.study]),
    script:
        "../scripts/runs_table.py"


for study, figure in latex_tables():

    rule:
        name:
            figure
        input:
            **figure_inputs(study, figure),
            code=figure_code(study, figure),
        output:
            tex=f"{RESULTS}/figures/{study}/{figure}.tex",
            csv=report(
                f"{RESULTS}/figures/{study}/{figure}.csv",
                caption=f"../report/{figure}.rst",
                category=study,
            ),
        log:
            f"{RESULTS}/logs/figures/{study}/{figure}.log",
        benchmark:
            f"{RESULTS}/benchmarks/figures/{study}/{figure}.tsv"
        localrule: True
        conda:
            "../../envs/python.yaml"
        threads: 1
        resources:
            mem_mb=2000,
            runtime=20,
        params:
            module=FIGURES[study][figure].module,
            inputs=list(FIGURES[study][figure].inputs),
            runs=shown_runs(study, figure),
            settings=figure_settings(study, figure),
        script:
            "../scripts/latex_table.py"
