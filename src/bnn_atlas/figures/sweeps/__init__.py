"""Any metric of runs against any field of their settings: what all figures of a sweep share."""
