# Ridge lines of the marginal densities of biases, and of weights to compare, for two runs; two panels per layer.
#' @include draw.R kernel.R

# Args:
#   draws: columns run (factor of two), chain, layer (factor), label (factor in order of the ridges, from the top), role
#     (bias or weight) and value.
#   prior_sd: standard deviation of a prior N(0, sd^2), drawn as a ridge of its own; NULL for none.
#   remark: text below the title.
bias_ridges <- function(draws, prior_sd = NULL, remark = "") {
  layers <- split(draws, draws$layer, drop = TRUE)
  columns <- min(length(layers), 4)
  # Each row has as many layers as fit: their biases, and below them their weights.
  beside <- split(layers, (seq_along(layers) - 1) %/% columns)
  rows <- do.call(c, unname(lapply(beside, function(some) {
    lapply(c("bias", "weight"), function(role) {
      panels <- lapply(some, function(layer) panel_ridges(layer[layer$role == role, ], prior_sd))
      c(panels, vector("list", columns - length(panels)))
    })
  })))
  rows <- Filter(function(row) any(lengths(row) > 0), rows)
  panels <- do.call(c, rows)
  ridges <- vapply(panels, function(curves) length(unique(curves$label)), 0L)
  most <- apply(matrix(ridges, columns), 2, max)
  chains <- vapply(split(draws$chain, draws$run), function(chain) length(unique(chain)), 0L)
  counts <- sprintf("%d %s", chains, ifelse(chains == 1, "chain", "chains"))
  said <- paste("Draws of", if (length(unique(counts)) == 1) {
    paste(counts[1], "in each run")
  } else {
    paste(sprintf("%s (%s)", counts, names(chains)), collapse = " and ")
  })
  width <- max(column_width, text_width * columns / 4)
  said <- unlist(strsplit(wrapped(c(said, if (remark != "") remark), width), "\n"))
  drawn <- Map(padded_panel, panels, ridges, rep(most, each = columns))
  legend <- ggplot2::guide_legend(nrow = if (columns < 3) 2)
  plot <- patchwork::wrap_plots(drawn, ncol = columns, heights = most) +
    patchwork::plot_layout(guides = "collect") +
    patchwork::plot_annotation(subtitle = paste(said, collapse = "\n")) &
    ggplot2::theme(legend.position = "bottom") &
    ggplot2::guides(colour = legend, fill = legend)
  data <- do.call(rbind, unname(panels))
  rownames(data) <- NULL
  list(plot = plot, data = data, width = width, height = 0.75 + 0.14 * length(said) + sum(0.6 + 0.2 * most))
}

# The curves of the biases or of the weights of a layer, NULL for none: for each ridge and run the density within the
# panel's window, and the shares of the draws below and above it.
panel_ridges <- function(part, prior_sd, points = 160) {
  if (nrow(part) == 0) return(NULL)
  window <- panel_window(part)
  x <- signif(seq(window[1], window[2], length.out = points), 5)
  ridge <- function(some) {
    density <- density_at(some$value, common_bandwidth(some$value, some$chain), x)
    data.frame(
      layer = some$layer[1], label = some$label[1], role = some$role[1], run = some$run[1], x = x,
      density = signif(density, 4), below = mean(some$value < window[1]), above = mean(some$value > window[2])
    )
  }
  curves <- do.call(rbind, lapply(split(part, list(part$run, part$label), drop = TRUE), ridge))
  curves <- data.frame(lapply(curves, function(column) if (is.factor(column)) as.character(column) else column))
  if (!is.null(prior_sd)) {
    curves <- rbind(curves, data.frame(
      layer = as.character(part$layer[1]), label = "prior", role = paste("prior of", part$role[1]),
      run = sprintf("density of N(0, %.3g)", prior_sd^2), x = x,
      density = signif(stats::dnorm(x, 0, prior_sd), 4), below = stats::pnorm(window[1], 0, prior_sd),
      above = stats::pnorm(window[2], 0, prior_sd, lower.tail = FALSE)
    ))
  }
  curves$run <- factor(curves$run, c(levels(part$run), setdiff(curves$run, levels(part$run))))
  curves
}

# Limits of a panel's x axis: each ridge of either run has 98 per cent of its draws between them. They are at most three
# interquartile ranges beyond the quartiles of a run (of the run where that is farther out), so that one parameter that
# runs away does not flatten the others.
panel_window <- function(part) {
  ridges <- split(part$value, list(part$run, part$label), drop = TRUE)
  ends <- vapply(ridges, function(value) unname(stats::quantile(value, c(0.01, 0.99))), c(0, 0))
  fences <- vapply(split(part$value, part$run, drop = TRUE), function(value) {
    quartiles <- unname(stats::quantile(value, c(0.25, 0.75)))
    reach <- 3 * diff(quartiles)
    quartiles + c(-1, 1) * if (reach == 0) max(abs(quartiles[1]), 1) else reach
  }, c(0, 0))
  c(max(min(ends[1, ]), min(fences[1, ])), min(max(ends[2, ]), max(fences[2, ])))
}

# A panel of n ridges, padded with empty space to the height of a panel of `most`.
padded_panel <- function(curves, ridges, most) {
  if (is.null(curves)) return(patchwork::plot_spacer())
  panel <- ridge_panel(curves)
  if (ridges == most) return(panel)
  # Title and axis of the panel take about the height of 0.6 ridges from it.
  patchwork::wrap_plots(panel, patchwork::plot_spacer(), ncol = 1, heights = c(ridges + 0.6, most - ridges - 0.6))
}

# The ridges of a panel, the first one at the top, the prior set apart by a gap.
ridge_panel <- function(curves) {
  labels <- unique(curves$label)
  base <- -(seq_along(labels) + 0.3 * (labels == "prior"))
  curves$base <- base[match(curves$label, labels)]
  # Wide curves beside narrow ones would be flat lines on a common scale.
  curves$top <- curves$base + 0.92 * curves$density / stats::ave(curves$density, curves$label, curves$run, FUN = peak)
  edges <- edge_shares(curves)
  colours <- unname(c(okabe_ito[c("blue", "vermilion")], grey_text))
  ggplot2::ggplot(curves, ggplot2::aes(x, group = interaction(label, run), colour = run, fill = run)) +
    ggplot2::geom_hline(yintercept = base, colour = "#D9D9D9", linewidth = points_wide(0.4)) +
    ggplot2::geom_ribbon(ggplot2::aes(ymin = base, ymax = top), alpha = 0.3, colour = NA) +
    ggplot2::geom_line(ggplot2::aes(y = top), linewidth = points_wide(0.7)) +
    ggplot2::geom_text(
      data = edges, ggplot2::aes(x, y, label = text, hjust = hjust), size = 4.5 / ggplot2::.pt, family = "Atlas Sans",
      show.legend = FALSE
    ) +
    ggplot2::scale_colour_manual(values = colours, aesthetics = c("colour", "fill")) +
    # The numbers at the edges are in the margins.
    ggplot2::scale_x_continuous(
      expand = ggplot2::expansion(0.08), breaks = scales::breaks_extended(5), labels = axis_numbers
    ) +
    ggplot2::coord_cartesian(clip = "off") +
    ggplot2::scale_y_continuous(breaks = base, labels = labels, expand = ggplot2::expansion(add = c(0.15, 0.1))) +
    ggplot2::labs(
      title = paste0(sub("^l", "L", curves$layer[1]), if (curves$role[1] == "bias") ", biases" else ", weights"),
      x = "parameter value", y = NULL
    ) +
    theme_atlas() +
    ggplot2::theme(
      axis.line.y = ggplot2::element_blank(), axis.ticks.y = ggplot2::element_blank(),
      axis.text.y = ggplot2::element_text(size = 6, vjust = 0)
    )
}

# The largest density of a curve; 1 where all of its draws are outside the window.
peak <- function(density) if (any(density > 0)) max(density) else 1

# The shares of the draws beyond the edges of a panel that are worth a number, one run above the other.
edge_shares <- function(curves, least = 0.02) {
  first <- curves[!duplicated(curves[c("label", "run")]) & curves$label != "prior", ]
  side <- function(share, x, hjust) {
    kept <- first[share >= least, ]
    data.frame(
      label = kept$label, run = kept$run, x = rep(x, nrow(kept)), hjust = rep(hjust, nrow(kept)),
      y = kept$base + ifelse(as.integer(kept$run) == 1, 0.68, 0.3), text = sprintf("%.0f", 100 * share[share >= least])
    )
  }
  rbind(side(first$below, min(curves$x), 1.15), side(first$above, max(curves$x), -0.15))
}
