"""Takes pages of the project's root (map, contributing, changes, security) into the site, and mends their links."""

import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_PAGES = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
}
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    root = Path(config.config_file_path).parent
    for name, page in _PAGES.items():
        files.append(File.generated(config, page, content=relinked((root / name).read_text(encoding="utf-8"))))
    return files


def relinked(text: str) -> str:
    """A page of the project's root with links as they read from the site's folder of project pages.

    >>> relinked("[data](docs/trust.md#seeds), [map](ARCHITECTURE.md)")
    '[data](../trust.md#seeds), [map](../project/architecture.md)'
    """

    def link(match: re.Match[str]) -> str:
        target = match[1]
        page = _PAGES.get(target) or str(PurePosixPath(target).relative_to("docs"))
        return f"](../{page}{match[2] or ''})"

    return _LINK.sub(link, text)
