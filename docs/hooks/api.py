"""Writes the reference of Python from the package's public names: a page for each room, whenever the site is built."""

from collections import defaultdict

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import pixpnet

_FOLDER = "reference/api"
# Rooms by the title of the page that they share; one that is in no list gets a page of its own.
_PAGES = {
    "Fields": ("fields", "box"),
    "Data": ("data",),
    "Configuration and family": ("config", "family"),
    "Model and parts": ("model", "parts", "zoo"),
    "Training and runs": ("training", "verdicts"),
    "Explanation": ("explanation",),
    "Mapping": ("mapping",),
    "Metrics": ("metrics",),
    "Search for a cut": ("goldilocks",),
    "Views": ("views",),
    "Files": ("records", "manifest"),
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    titles = {room: title for title, rooms in _PAGES.items() for room in rooms}
    homes: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for name in pixpnet.__all__:
        if name in pixpnet._HOMES:
            home = pixpnet._HOMES[name]
            room = home.split(".")[1]
            homes[titles.get(room, room.capitalize())][name] = home
    for title, names in homes.items():
        files.append(File.generated(config, f"{_FOLDER}/{_slug(title)}.md", content=_page(title, names)))
    files.append(File.generated(config, f"{_FOLDER}/index.md", content=_index(homes)))
    return files


def _page(title: str, names: dict[str, str]) -> str:
    blocks = [f"::: {home}.{name}" for name, home in sorted(names.items(), key=lambda item: item[0].lower())]
    return (
        "\n\n".join([f"# {title}", "All of these are names of `pixpnet` itself: `import pixpnet as px`.", *blocks])
        + "\n"
    )


def _index(homes: dict[str, dict[str, str]]) -> str:
    lines = [
        "# Python",
        "",
        "`import pixpnet as px` offers these names; they are loaded when first used. The pages are made from the code.",
        "",
        "| page | names |",
        "|---|---|",
    ]
    for title in sorted(homes):
        page = f"{_slug(title)}.md"
        names = sorted(homes[title].items(), key=lambda item: item[0].lower())
        lines.append(
            f"| [{title}]({page}) | {', '.join(f'[`{name}`]({page}#{home}.{name})' for name, home in names)} |"
        )
    return "\n".join(lines) + "\n"


def _slug(title: str) -> str:
    return title.lower().replace(" ", "-")
