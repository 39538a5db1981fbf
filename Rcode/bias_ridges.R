# Ridge lines of the marginal densities of biases, and of weights to compare, for two runs; a panel per layer.

# Args:
#   draws: columns run (factor of two), chain, layer (factor), label (factor in order of the ridges, from the top), role
#     and value.
#   prior_sd: standard deviation of a prior N(0, sd^2), drawn as a ridge of its own; NULL for none.
#   remark: said below the title.
bias_ridges <- function(draws, prior_sd = NULL, remark = "") {
  layers <- split(draws, draws$layer, drop = TRUE)
  curves <- lapply(layers, layer_ridges, prior_sd = prior_sd)
  columns <- min(length(layers), 4)
  rows <- vapply(layers, function(layer) length(unique(layer$label)) + !is.null(prior_sd), 0)
  in_row <- tapply(rows, (seq_along(rows) - 1) %/% columns, max)
  chains <- vapply(split(draws$chain, draws$run), function(chain) length(unique(chain)), 0L)
  who <- paste(sprintf("%s, %d %s", names(chains), chains, ifelse(chains == 1, "chain", "chains")), collapse = "; ")
  said <- paste(
    paste0("All draws of ", who, ". Heights compare within a row only."),
    "Numbers at an edge: per cent of the draws beyond it, if 2 or more."
  )
  width <- max(column_width, text_width * columns / 4)
  said <- unlist(strsplit(wrapped(c(said, if (remark != "") remark), width), "\n"))
  plot <- patchwork::wrap_plots(lapply(curves, ridge_panel), ncol = columns, heights = pmax(in_row, 4)) +
    patchwork::plot_layout(guides = "collect") +
    patchwork::plot_annotation(subtitle = paste(said, collapse = "\n")) &
    ggplot2::theme(legend.position = "bottom")
  height <- 0.75 + 0.14 * length(said) + sum(0.45 + 0.2 * pmax(in_row, 4))
  data <- do.call(rbind, curves)
  rownames(data) <- NULL
  list(plot = plot, data = data, width = width, height = height)
}

# The curves of a layer: for each ridge and run the density within the layer's window, and the shares of the draws below
# and above it.
layer_ridges <- function(layer, prior_sd, points = 160) {
  window <- layer_window(layer$value)
  x <- signif(seq(window[1], window[2], length.out = points), 5)
  ridge <- function(part) {
    density <- density_at(part$value, common_bandwidth(part$value, part$chain), x)
    data.frame(
      layer = part$layer[1], label = part$label[1], role = part$role[1], run = part$run[1], x = x,
      density = signif(density, 4), below = mean(part$value < window[1]), above = mean(part$value > window[2])
    )
  }
  curves <- do.call(rbind, lapply(split(layer, list(layer$run, layer$label), drop = TRUE), ridge))
  curves <- data.frame(lapply(curves, function(column) if (is.factor(column)) as.character(column) else column))
  if (!is.null(prior_sd)) {
    curves <- rbind(curves, data.frame(
      layer = as.character(layer$layer[1]), label = "prior", role = "prior",
      run = sprintf("prior N(0, %.3g\u00b2)", prior_sd), x = x,
      density = signif(stats::dnorm(x, 0, prior_sd), 4), below = stats::pnorm(window[1], 0, prior_sd),
      above = stats::pnorm(window[2], 0, prior_sd, lower.tail = FALSE)
    ))
  }
  curves$run <- factor(curves$run, c(levels(layer$run), setdiff(curves$run, levels(layer$run))))
  curves
}

# Where the x axis of a layer begins and ends: the 0.5 and 99.5 per cent quantiles of all its draws, but at most three
# interquartile ranges beyond the quartiles, so that a bias which runs away does not flatten the others.
layer_window <- function(values) {
  q <- unname(stats::quantile(values, c(0.005, 0.25, 0.75, 0.995)))
  reach <- 3 * (q[3] - q[2])
  if (reach == 0) reach <- max(abs(q[2]), 1)
  c(max(q[1], q[2] - reach), min(q[4], q[3] + reach))
}

# One layer: the first ridge at the top; biases, weights and the prior set apart by a gap.
ridge_panel <- function(curves) {
  labels <- unique(curves$label)
  role <- curves$role[match(labels, curves$label)]
  base <- -(seq_along(labels) + 0.4 * cumsum(c(FALSE, role[-1] != role[-length(role)])))
  curves$base <- base[match(curves$label, labels)]
  # Both runs of a ridge share its vertical scale.
  curves$top <- curves$base + 0.92 * curves$density / stats::ave(curves$density, curves$label, FUN = max)
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
    # The numbers at the edges stand in the margins.
    ggplot2::scale_x_continuous(expand = ggplot2::expansion(0.08), breaks = scales::breaks_extended(5)) +
    ggplot2::coord_cartesian(clip = "off") +
    ggplot2::scale_y_continuous(breaks = base, labels = labels, expand = ggplot2::expansion(add = c(0.15, 0.1))) +
    ggplot2::labs(title = curves$layer[1], x = "parameter value", y = NULL) +
    theme_atlas() +
    ggplot2::theme(
      axis.line.y = ggplot2::element_blank(), axis.ticks.y = ggplot2::element_blank(),
      axis.text.y = ggplot2::element_text(size = 6, vjust = 0)
    )
}

# The shares of the draws beyond the edges of a panel that are worth a number, one run above the other.
edge_shares <- function(curves, least = 0.02) {
  first <- curves[!duplicated(curves[c("label", "run")]) & curves$role != "prior", ]
  side <- function(share, x, hjust) {
    kept <- first[share >= least, ]
    data.frame(
      label = kept$label, run = kept$run, x = rep(x, nrow(kept)), hjust = rep(hjust, nrow(kept)),
      y = kept$base + ifelse(as.integer(kept$run) == 1, 0.68, 0.3), text = sprintf("%.0f", 100 * share[share >= least])
    )
  }
  rbind(side(first$below, min(curves$x), 1.15), side(first$above, max(curves$x), -0.15))
}
