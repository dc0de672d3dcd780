"""A real PostgreSQL server, two workers, one of them killed in the middle of a trial."""

import os
import shutil
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pixpnet.goldilocks import find_cuts
from pixpnet.goldilocks.study import Study
from tests.goldilocks.material import PATIENCE, history, options, start_worker, wait_for


def as_another_user() -> list[str]:
    """Words before a command: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    for user in ("postgres", "nobody"):
        words = ["runuser", "-u", user, "--"]
        if shutil.which("runuser") and subprocess.run([*words, "true"], capture_output=True).returncode == 0:
            return words
    pytest.skip("PostgreSQL refuses root, and there is no other user to run it as")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a database on a server of this test alone."""
    if any(shutil.which(program) is None for program in ("initdb", "pg_ctl", "postgres")):
        pytest.skip("needs PostgreSQL's initdb, pg_ctl and postgres on PATH, which are not here")
    words = as_another_user()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Another user must reach it, and pytest keeps its folders to itself.
    made = subprocess.run([*words, "mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip()
    folder = Path(made)

    def run(*command: str) -> None:
        done = subprocess.run([*words, *command], capture_output=True, text=True, cwd="/", timeout=PATIENCE)
        if done.returncode:
            pytest.fail(f"{command[0]}: {done.stdout}{done.stderr}")

    try:
        run("initdb", "-D", f"{folder}/data", "-U", "searcher", "--auth=trust", "--no-sync", "-E", "UTF8")
        settings = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=20"
        run("pg_ctl", "-D", f"{folder}/data", "-w", "-l", f"{folder}/log", "-o", settings, "start")
        try:
            yield f"postgresql://searcher@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_two_workers_one_killed_in_a_trial_and_every_candidate_is_done_exactly_once(
    server: str, pictures: Path, tmp_path: Path
) -> None:
    search_options = options(pictures, method="finetune", storage=server)
    journal, go, never = tmp_path / "journal", tmp_path / "go", tmp_path / "never"
    victim = start_worker(
        "work", options=search_options, out=str(tmp_path / "a"), hang_at=2, mark=str(tmp_path / "in"), go=str(never),
        journal=str(journal),
    )  # fmt: skip
    wait_for(tmp_path / "in")
    other = start_worker(
        "work", options=search_options, out=str(tmp_path / "b"), hang_at=1, mark=str(tmp_path / "also in"), go=str(go),
        journal=str(journal),
    )  # fmt: skip
    wait_for(tmp_path / "also in")
    # Both are in the middle of a trial now.
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    victim.join(PATIENCE)
    assert victim.exitcode == -signal.SIGKILL
    go.touch()
    other.join(PATIENCE)
    assert other.exitcode == 0

    result = find_cuts(search_options, tmp_path / "b")  # nothing is left to do: this only reads
    names = [cut.name for cut in result.evaluated]
    assert len(names) == 6 and not result.waiting
    assert Counter(journal.read_text().split("\n")[:-1]) == Counter(names)
    study = Study(server, result.settings, {}, heartbeat=1)
    states = history(study)
    study.close()
    assert sorted(states.values()) == sorted([["COMPLETE"]] * 5 + [["FAIL", "COMPLETE"]])
