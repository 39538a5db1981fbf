# Marginal densities of single parameters: each chain's, all chains' together, and the prior.

# Args:
#   draws: columns chain, label (factor in order of the panels), layer (factor in order of the rows of panels), value,
#     and prior_sd (standard deviation of a prior N(0, prior_sd^2); NA for none).
#   chains_shown: at most so many chains get a line of their own, the first ones; all enter the pooled density.
#   limit: half-width of the x axis; NULL takes what holds all but 0.2 per cent of the draws of every panel.
marginal_densities <- function(draws, chains_shown = 50, limit = NULL) {
  panels <- split(draws, draws$label, drop = TRUE)
  if (is.null(limit)) {
    limit <- max(vapply(panels, function(p) max(abs(stats::quantile(p$value, c(0.001, 0.999)))), 0))
  }
  curves <- do.call(rbind, lapply(panels, panel_curves, chains_shown = chains_shown, limit = limit))
  rownames(curves) <- NULL
  rows <- lapply(split(curves, curves$layer, drop = TRUE), function(row) split(row, row$label, drop = TRUE))
  columns <- vapply(rows, length, 0L)
  chains <- length(unique(draws$chain))
  alpha <- max(0.2, min(0.6, 5 / min(chains, chains_shown)))
  plots <- list()
  for (i in seq_along(rows)) {
    for (j in seq_len(max(columns))) {
      plots[[length(plots) + 1]] <- if (j > columns[i]) {
        patchwork::plot_spacer()
      } else {
        density_panel(rows[[i]][[j]], if (j == 1) names(rows)[i], alpha, lowest = !any(columns[-seq_len(i)] >= j))
      }
    }
  }
  shown <- if (chains > chains_shown) sprintf("; the first %d of %d chains have a line", chains_shown, chains) else ""
  plot <- patchwork::wrap_plots(plots, ncol = max(columns)) +
    patchwork::plot_layout(guides = "collect") +
    patchwork::plot_annotation(subtitle = paste0("Density of the draws, each panel on its own scale", shown)) &
    ggplot2::theme(legend.position = "bottom")
  list(plot = plot, data = curves, width = text_width, height = 0.75 + 0.85 * length(rows))
}

# Density curves of one parameter. One bandwidth (the median of the chains' own, by Silverman's rule) serves every
# curve, so the pooled density is the mean of the chains' densities when they have equally many draws.
panel_curves <- function(panel, chains_shown, limit) {
  by_chain <- split(panel$value, panel$chain)
  bandwidth <- stats::median(vapply(by_chain, stats::bw.nrd0, 0))
  x <- signif(seq(-limit, limit, length.out = 256), 6)
  curve <- function(kind, chain, density) {
    # The transform inside density() leaves noise of about 1e-17 where there is nothing.
    density[density < 1e-9 * max(density)] <- 0
    data.frame(
      layer = panel$layer[1], label = panel$label[1], curve = kind, chain = chain, x = x, density = signif(density, 6)
    )
  }
  estimate <- function(values) stats::density(values, bw = bandwidth, from = -limit, to = limit, n = length(x))$y
  shown <- utils::head(names(by_chain), chains_shown)
  curves <- lapply(shown, function(chain) curve("chain", as.integer(chain), estimate(by_chain[[chain]])))
  pooled <- curve("pooled", NA_integer_, estimate(panel$value))
  sd <- panel$prior_sd[1]
  prior <- if (!is.na(sd)) curve("prior", NA_integer_, stats::dnorm(x, 0, sd))
  do.call(rbind, c(curves, list(pooled, prior)))
}

# One panel; the lowest one of a column carries the labels of the x axis.
density_panel <- function(curves, row_title, chain_alpha, lowest) {
  kinds <- c(chain = "one chain", pooled = "all chains", prior = "prior")
  kinds <- kinds[names(kinds) %in% curves$curve]
  curves$kind <- factor(kinds[curves$curve], kinds)
  plot <- ggplot2::ggplot(curves, ggplot2::aes(
    x, density,
    group = paste(curve, chain), colour = kind, linetype = kind, linewidth = kind, alpha = kind
  )) +
    ggplot2::geom_line() +
    ggplot2::scale_colour_manual(values = unname(okabe_ito[c("blue", "black", "vermilion")])) +
    ggplot2::scale_linetype_manual(values = c("solid", "solid", "22")) +
    ggplot2::scale_linewidth_manual(values = points_wide(c(0.5, 1.2, 0.9))) +
    ggplot2::scale_alpha_manual(values = c(chain_alpha, 1, 1)) +
    ggplot2::guides(alpha = ggplot2::guide_legend(override.aes = list(alpha = 1))) +
    ggplot2::scale_x_continuous(expand = c(0, 0)) +
    ggplot2::scale_y_continuous(breaks = NULL, limits = c(0, NA), expand = ggplot2::expansion(c(0, 0.05))) +
    ggplot2::labs(title = curves$label[1], x = if (lowest) "parameter value", y = row_title) +
    theme_atlas() +
    ggplot2::theme(axis.line.y = ggplot2::element_blank())
  if (lowest) plot else plot + ggplot2::theme(axis.text.x = ggplot2::element_blank())
}
