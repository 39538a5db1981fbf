# Prior density that a hidden unit loses when its weights are rescaled by c, and where it loses none.
#' @include draw.R

# Args:
#   points: columns kind ("curve", "other zero", "trivial zero", "published zero"), c and h.
#   b, w1, w2: bias, incoming and outgoing weight of the unit, for the subtitle.
rescaling_curve <- function(points, b, w1, w2) {
  curve <- points[points$kind == "curve", ]
  zeros <- points[points$kind %in% c("other zero", "trivial zero"), ]
  published <- points[points$kind == "published zero", ]
  trivial <- zeros$kind == "trivial zero"
  zeros$text <- ifelse(trivial, "c = 1 (trivial)", sprintf("c* = %.4f", zeros$c))
  # Between the zeros the curve is below the line, so there is room above it.
  zeros$hjust <- ifelse(zeros$c == max(zeros$c), 1, -0.12)
  zeros$vjust <- ifelse(zeros$c == max(zeros$c), -1.9, -0.5)
  plot <- ggplot2::ggplot(curve, ggplot2::aes(c, 1000 * h)) +
    ggplot2::geom_hline(yintercept = 0, colour = grey_text, linewidth = points_wide(0.6), linetype = "22") +
    ggplot2::geom_line(colour = okabe_ito[["blue"]], linewidth = points_wide(1.3)) +
    ggplot2::geom_point(
      data = zeros, shape = 21, size = 2, stroke = 0.7, colour = okabe_ito[["vermilion"]],
      fill = ifelse(trivial, "white", okabe_ito[["vermilion"]])
    ) +
    ggplot2::geom_text(
      data = zeros, ggplot2::aes(label = text, hjust = hjust, vjust = vjust), size = 7 / ggplot2::.pt,
      family = "Atlas Sans"
    ) +
    ggplot2::geom_point(data = published, shape = 5, size = 3, stroke = 0.7) +
    ggplot2::geom_text(
      data = published, ggplot2::aes(label = sprintf("published: %.4f", c)), hjust = 1.1, vjust = 2,
      size = 7 / ggplot2::.pt, family = "Atlas Sans"
    ) +
    ggplot2::scale_x_continuous(expand = ggplot2::expansion(0.01)) +
    ggplot2::scale_y_continuous(labels = axis_numbers) +
    ggplot2::labs(
      subtitle = sprintf("Prior N(0, 1), unit with b = %g, w1 = %g, w2 = %g", b, w1, w2),
      x = "c: the unit becomes (c b, c w1, w2 / c)", y = "h(c) \u00d7 10\u00b3"
    ) +
    theme_atlas()
  list(plot = plot, data = points, width = column_width, height = 2.2)
}
