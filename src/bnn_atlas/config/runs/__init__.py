"""config/studies/<study>.yaml: studies, their runs at each scale, and splits and warm starts shared by runs."""
