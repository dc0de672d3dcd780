"""What members and presets were called in earlier versions, when both were recipes."""

from collections.abc import Mapping

# Recipe: the words of the command line that mean the same today.
RECIPES: Mapping[str, tuple[str, ...]] = {
    "laptop": ("--preset", "laptop"),
    "scratch": ("--preset", "scratch"),
    "pixpnet": ("--preset", "paper"),
    "protopnet": ("--member", "protopnet", "--preset", "paper"),
    "frozen": ("--preset", "frozen"),
    "tail": ("--preset", "tail"),
}
