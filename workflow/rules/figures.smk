# One rule for each figure; its name is the target.

for study, figure in drawn_figures():
    made = FIGURES[study][figure]

    rule:
        name:
            figure
        input:
            **figure_inputs(study, figure),
            code=figure_code(study, figure),
        output:
            multiext(f"{RESULTS}/figures/{study}/{figure}", ".pdf", ".csv"),
            report(
                f"{RESULTS}/figures/{study}/{figure}.png",
                caption=f"../report/{figure}.rst",
                category=study,
            ),
        log:
            f"{RESULTS}/logs/figures/{study}/{figure}.log",
        benchmark:
            f"{RESULTS}/benchmarks/figures/{study}/{figure}.tsv"
        conda:
            "../../envs/r.yaml" if made.r else "../../envs/python.yaml"
        threads: 1
        resources:
            mem_mb=4000,
            runtime=20,
        params:
            module=made.module,
            inputs=list(made.inputs),
            runs=shown_runs(study, figure),
            settings=figure_settings(study, figure),
        script:
            "../scripts/figure.py"
