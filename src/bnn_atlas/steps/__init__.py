"""What the rules do: one function for each rule, from files and plain settings to files."""
