"""What the command line does; importing this imports nothing heavy, so that `--help` answers at once."""
