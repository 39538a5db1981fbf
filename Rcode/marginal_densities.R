# Marginal densities of single parameters: each chain's, all chains' together, and the prior.
#' @include draw.R kernel.R

most_columns <- 6

# Args:
#   draws: columns run (factor; the runs are drawn beside each other), chain, label (factor in order of the panels),
#     layer (factor in order of the rows of panels), value and prior_sd (standard deviation of a prior N(0, prior_sd^2);
#     NA for none).
#   chains_shown: at most this many chains of a run, the first ones, get a line; all enter the pooled density.
#   remark: text below the title.
marginal_densities <- function(draws, chains_shown, remark = "") {
  runs <- lapply(split(draws, draws$run, drop = TRUE), run_curves, chains_shown = chains_shown)
  curves <- do.call(rbind, runs)
  rownames(curves) <- NULL
  kinds <- c(chain = "one chain", pooled = "all chains", prior = "prior")
  kinds <- kinds[names(kinds) %in% curves$curve]
  chains <- max(tapply(draws$chain, droplevels(draws$run), function(chain) length(unique(chain))))
  alpha <- max(0.2, min(0.6, 5 / min(chains, chains_shown)))
  rows <- lapply(runs, function(run) {
    lapply(split(run, run$layer, drop = TRUE), function(row) split(row, row$label, drop = TRUE))
  })
  columns <- max(lengths(unlist(rows, recursive = FALSE)))
  beside <- max(1, most_columns %/% columns)
  lines <- split(names(rows), (seq_along(rows) - 1) %/% beside)
  beside <- max(lengths(lines))
  plots <- unlist(lapply(lines, function(line) {
    line_panels(rows[line], beside, columns, kinds, alpha, headed = length(rows) > 1)
  }), recursive = FALSE)
  shown <- if (chains > chains_shown) sprintf("; the first %d of %d chains have a line", chains_shown, chains) else ""
  said <- c(paste0("Density of the draws, each panel on its own scale", shown), if (remark != "") remark)
  said <- unlist(strsplit(wrapped(said, text_width), "\n"))
  plot <- patchwork::wrap_plots(plots, ncol = beside * columns) +
    patchwork::plot_layout(guides = "collect") +
    patchwork::plot_annotation(subtitle = paste(said, collapse = "\n")) &
    ggplot2::theme(legend.position = "bottom")
  count <- sum(vapply(lines, function(line) max(lengths(rows[line])), 0))
  more <- if (length(rows) > 1) 0.32 * length(lines) else 0
  height <- 0.75 + 0.12 * (length(said) - 1) + count * (if (count > 6) 0.75 else if (count == 1) 1.5 else 0.85) + more
  list(plot = plot, data = curves, width = text_width, height = height)
}

# The curves of all panels of a run, with one x axis that holds all but 0.2 per cent of the draws of every panel.
run_curves <- function(draws, chains_shown) {
  panels <- split(draws, draws$label, drop = TRUE)
  limit <- max(vapply(panels, function(p) max(abs(stats::quantile(p$value, c(0.001, 0.999)))), 0))
  do.call(rbind, lapply(panels, panel_curves, chains_shown = chains_shown, limit = limit))
}

# Density curves of one parameter.
panel_curves <- function(panel, chains_shown, limit) {
  by_chain <- split(panel$value, panel$chain)
  bandwidth <- common_bandwidth(panel$value, panel$chain)
  x <- signif(seq(-limit, limit, length.out = 256), 6)
  curve <- function(kind, chain, density) {
    data.frame(
      run = panel$run[1], layer = panel$layer[1], label = panel$label[1], curve = kind, chain = chain, x = x,
      density = signif(density, 6)
    )
  }
  shown <- utils::head(names(by_chain), chains_shown)
  curves <- lapply(shown, function(chain) {
    curve("chain", as.integer(chain), density_at(by_chain[[chain]], bandwidth, x))
  })
  pooled <- curve("pooled", NA_integer_, density_at(panel$value, bandwidth, x))
  sd <- panel$prior_sd[1]
  prior <- if (!is.na(sd)) curve("prior", NA_integer_, stats::dnorm(x, 0, sd))
  do.call(rbind, c(curves, list(pooled, prior)))
}

# The panels of the runs of a line, row by row, with spacers where a run has fewer rows than another, a row is shorter
# than `columns`, or the line has fewer runs than `beside`.
line_panels <- function(runs, beside, columns, kinds, alpha, headed) {
  plots <- list()
  for (i in seq_len(max(lengths(runs)))) {
    for (run in seq_len(beside)) {
      rows <- if (run <= length(runs)) runs[[run]]
      width <- lengths(rows)
      for (j in seq_len(columns)) {
        plots[[length(plots) + 1]] <- if (i > length(rows) || j > width[i]) {
          patchwork::plot_spacer()
        } else {
          density_panel(
            rows[[i]][[j]], if (j == 1) names(rows)[i], kinds, alpha, lowest = !any(width[-seq_len(i)] >= j),
            heading = if (i == 1 && headed) if (j == 1) names(runs)[run] else " "
          )
        }
      }
    }
  }
  plots
}

# One panel; the lowest one of a column carries the labels of the x axis, the first one of a run its heading.
density_panel <- function(curves, row_title, kinds, chain_alpha, lowest, heading) {
  curves$kind <- factor(kinds[curves$curve], kinds)
  values <- function(values) unname(values[names(kinds)])
  plot <- ggplot2::ggplot(curves, ggplot2::aes(
    x, density,
    group = paste(curve, chain), colour = kind, linetype = kind, linewidth = kind, alpha = kind
  )) +
    ggplot2::geom_line(show.legend = TRUE) +
    ggplot2::scale_colour_manual(
      values = values(c(chain = okabe_ito[["blue"]], pooled = okabe_ito[["black"]], prior = okabe_ito[["vermilion"]])),
      drop = FALSE
    ) +
    ggplot2::scale_linetype_manual(values = values(c(chain = "solid", pooled = "solid", prior = "22")), drop = FALSE) +
    ggplot2::scale_linewidth_manual(
      values = values(points_wide(c(chain = 0.5, pooled = 1.2, prior = 0.9))), drop = FALSE
    ) +
    ggplot2::scale_alpha_manual(values = values(c(chain = chain_alpha, pooled = 1, prior = 1)), drop = FALSE) +
    ggplot2::guides(alpha = ggplot2::guide_legend(override.aes = list(alpha = 1))) +
    ggplot2::scale_x_continuous(
      expand = c(0, 0), breaks = scales::breaks_extended(4), labels = axis_numbers
    ) +
    ggplot2::scale_y_continuous(breaks = NULL, limits = c(0, NA), expand = ggplot2::expansion(c(0, 0.05))) +
    ggplot2::labs(
      title = if (is.null(heading)) curves$label[1] else heading, subtitle = if (!is.null(heading)) curves$label[1],
      x = if (lowest) "parameter value", y = row_title
    ) +
    theme_atlas() +
    # A heading may reach over the panels to its right.
    ggplot2::theme(axis.line.y = ggplot2::element_blank(), plot.background = ggplot2::element_blank())
  if (!is.null(heading)) {
    plot <- plot + ggplot2::theme(
      plot.title = ggplot2::element_text(face = "bold"),
      plot.subtitle = ggplot2::element_text(margin = ggplot2::margin(0, 0, 2, 0))
    )
  }
  if (lowest) plot else plot + ggplot2::theme(axis.text.x = ggplot2::element_blank())
}
