"""Fills the stars of the navigation: `results/*` stands for the pages of that folder that are named nowhere else."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files

_STAR = "*"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Runs behind the hooks that add pages, so that it sees those too."""
    pages = [file.src_uri for file in files.documentation_pages()]
    config.nav = filled(config.nav, pages)
    return files


def filled(nav: Any, pages: list[str]) -> Any:
    """The navigation with pages in the place of stars.

    >>> filled([{"Results": ["results/index.md", "results/*"]}], ["results/index.md", "results/b.md", "results/a.md"])
    [{'Results': ['results/index.md', 'results/a.md', 'results/b.md']}]
    """
    named = set(_names(nav))
    return _filled(nav, [page for page in sorted(pages) if page not in named])


def _filled(nav: Any, free: list[str]) -> Any:
    if isinstance(nav, dict):
        return {title: _filled(inner, free) for title, inner in nav.items()}
    if not isinstance(nav, list):
        return nav
    result: list[Any] = []
    for entry in nav:
        if isinstance(entry, str) and entry.endswith(_STAR):
            folder = PurePosixPath(entry).parent
            result += [page for page in free if PurePosixPath(page).parent == folder]
        else:
            result.append(_filled(entry, free))
    return result


def _names(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for inner in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _names(inner)
