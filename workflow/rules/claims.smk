# Claims of the papers against the tables; `claims` makes the table and the page.
from bnn_atlas.claims.plan import claimed_study


rule claims:
    input:
        tables=[f"{RESULTS}/tables/{study}.parquet" for study in ATLAS.claims],
        figures=list(claimed_figures().values()),
        code=expand(
            "src/bnn_atlas/claims/{file}",
            file=["plan.py", "answer.py", "verdict.py", "table.py", "page.py", "page.html.j2", "report.py"],
        ),
    output:
        table=f"{RESULTS}/claims.parquet",
        page=report(f"{RESULTS}/claims.html", caption="../report/claims.rst", category="claims"),
    log:
        f"{RESULTS}/logs/claims.log",
    benchmark:
        f"{RESULTS}/benchmarks/claims.tsv"
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        scale=SCALE,
        figures=list(claimed_figures()),
        studies=[
            claimed_study(ATLAS.studies[study], claims, SCALE).model_dump(mode="json")
            for study, claims in ATLAS.claims.items()
        ],
    script:
        "../scripts/claims.py"
