"""config/studies/<study>.yaml: studies, their runs at each scale, and what runs share."""
