"""What the rules do, as functions of files and settings; where JAX is used, `runtime.configure` comes first."""
