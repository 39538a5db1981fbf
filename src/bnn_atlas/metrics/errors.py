"""What can be wrong with what is to be scored."""


class PredictionError(ValueError):
    """The predictions or the data do not have the shape or the meaning that the scores need."""
