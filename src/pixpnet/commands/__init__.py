"""One file for each command: its arguments, and a function that does it and returns an exit code.

Nothing heavy is imported before the function runs, so that ``--help`` and shell completion answer at once.
"""
