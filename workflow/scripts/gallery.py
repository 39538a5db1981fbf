"""Write the pages of studies: their claims, figures, scores and times."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.study_page import study_page

with logged(snakemake.log[0]):
    for folder, (plan, command, kept) in snakemake.params.pages.items():
        study_page(folder, plan=plan, command=command, kept=kept)
