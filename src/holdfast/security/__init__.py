"""Nothing secret reaches git: credentials are taken out, states are sealed, checkpoints are signed."""
