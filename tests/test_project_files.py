"""Files that a public forge and its users read: they can be parsed, are complete, and agree with the package."""

import re
import subprocess
import tomllib
import zipfile
from datetime import date
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def load(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def test_the_citation_has_what_the_format_requires_and_agrees_with_the_package() -> None:
    # Citation File Format 1.2.0: these four are required, and entities have a name.
    citation = load("CITATION.cff")
    assert {"authors", "cff-version", "message", "title"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert citation["authors"] == [{"name": "The pixpnet developers"}]
    assert citation["type"] == "software"
    assert (citation["title"], citation["license"]) == (PROJECT["name"], PROJECT["license"])
    assert citation["version"] == PROJECT["version"]
    assert isinstance(citation["date-released"], date)


def test_the_paper_is_cited_with_its_authors_as_printed() -> None:
    (paper,) = load("CITATION.cff")["references"]
    assert {"type", "title", "authors"} <= set(paper)  # required of a reference
    names = [f"{author['given-names']} {author['family-names']}" for author in paper["authors"]]
    assert names == [
        "Zachariah Carmichael",
        "Suhas Lohit",
        "Anoop Cherian",
        "Michael J. Jones",
        "Walter J. Scheirer",
    ]


def test_the_changelog_begins_with_this_version_and_the_date_of_the_citation() -> None:
    heading = re.search(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert heading is not None
    assert heading.groups() == (PROJECT["version"], load("CITATION.cff")["date-released"].isoformat())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_jobs_whose_steps_do_something_and_asks_for_no_rights(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert "timeout-minutes" in job, name
        assert all(("run" in step) != ("uses" in step) for step in job["steps"]), name
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"run: make ([a-z-]+)", path.read_text())) <= targets


def test_the_matrix_is_what_the_package_claims() -> None:
    matrix = load(".github/workflows/test.yml")["jobs"]["versions"]["strategy"]["matrix"]
    claimed = [name.rsplit(" ", 1)[1] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert matrix["python"] == claimed
    assert matrix["system"] == ["ubuntu-latest", "macos-latest"]
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    for package in ("torch", "torchvision"):
        (oldest,) = [entry.partition(">=")[2] for entry in PROJECT["dependencies"] if entry.startswith(f"{package}>=")]
        assert f'"{package}=={oldest}.*"' in text


def test_hooks_before_a_commit_fetch_nothing() -> None:
    repos = load(".pre-commit-config.yaml")["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    assert all(hook["entry"].startswith(".venv/bin/") for repo in repos for hook in repo["hooks"])


def test_issue_forms_ask_for_something() -> None:
    forms = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    assert len(forms) == 2
    for path in forms:
        form = yaml.safe_load(path.read_text())
        assert {"name", "description", "body"} <= set(form)
        fields = [field for field in form["body"] if field["type"] != "markdown"]
        assert len({field["id"] for field in fields}) == len(fields)
        assert any(field["validations"]["required"] for field in fields)


def test_no_file_of_the_tree_holds_an_address_of_a_person_or_a_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    address = re.compile(r"\b[\w.+-]+@[\w-]+(\.[\w-]+)*\.(com|org|net|edu|io|de|dev|gov)\b")
    hosts = ("pypi" + ".org", "pythonhosted" + ".org", "download.pytorch" + ".org")
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if name and path.is_file() and path.suffix not in (".png", ".jpg", ".safetensors", ".ckpt", ".pt", ".ico"):
            text = path.read_bytes().decode("utf-8", errors="replace")
            assert not address.search(text), f"{name} holds {address.search(text)}"
            assert not any(host in text for host in hosts), name


# docs/decisions/packaging.md has what is in it, and what was done to make it smaller.
MOST_WHEEL_BYTES = 1_160_000


def test_the_wheel_stays_as_small_as_is_written_down() -> None:
    package = ROOT / "src" / "pixpnet"
    patterns = ("**/*.py", *SETTINGS["tool"]["setuptools"]["package-data"]["pixpnet"])
    held = sorted({path for pattern in patterns for path in package.glob(pattern) if path.is_file()})
    assert {"py.typed", "index.html", "report.html", "cli.py"} <= {path.name for path in held}
    wheel = BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (*held, ROOT / "README.md", ROOT / "LICENSE"):
            archive.write(path, path.relative_to(ROOT / "src" if path in held else ROOT))
        # Of each file a line of RECORD, whose digest cannot be compressed.
        names = [f"{path.relative_to(ROOT / 'src')},sha256={sha256(path.read_bytes()).hexdigest()}" for path in held]
        archive.writestr("RECORD", "\n".join(names))
    assert len(wheel.getvalue()) <= MOST_WHEEL_BYTES, "look for what no user needs before the limit is raised"
