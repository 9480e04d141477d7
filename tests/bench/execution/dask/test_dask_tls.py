"""A cluster that speaks TLS: the documented environment suffices, and without it nothing runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.paths import ACME

from .conftest import NodeServer, _address_in

pytest.importorskip("distributed")

from ope_bench.base.errors import UsageError
from ope_bench.execution.dask.executor import DaskExecutor

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates")

PREFIX = "DASK_DISTRIBUTED__COMM__"


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """The environment that the manual names, with a certificate that is its own authority."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    asked = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    command = ["openssl", "req", *asked, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    found = {f"{PREFIX}REQUIRE_ENCRYPTION": "True", f"{PREFIX}TLS__CA_FILE": str(cert)}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        found[f"{PREFIX}TLS__{role}__CERT"] = str(cert)
        found[f"{PREFIX}TLS__{role}__KEY"] = str(key)
    return found


@pytest.fixture
def address(settings: dict[str, str], tmp_path: Path, node_server: NodeServer) -> Iterator[str]:
    """A scheduler and a worker."""
    environment = {**os.environ, **settings, "PYTHONPATH": str(ACME)}
    file = tmp_path / "scheduler.json"
    processes = []

    def start(program: str, *options: str) -> None:
        processes.append(
            node_server.start(
                program,
                ["--no-dashboard", *options],
                log=str(tmp_path / f"{program}.log"),
                folder=str(tmp_path),
                environment=environment,
                path=[str(ACME)],
            )
        )

    try:
        start(
            *("scheduler", "--protocol", "tls", "--host", "127.0.0.1", "--port", "0"),
            *("--scheduler-file", str(file)),
        )
        found = _address_in(file)
        assert found.startswith("tls://")
        start("worker", found, "--no-nanny", "--nthreads", "1", "--memory-limit", "0")
        yield found
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def ope_bench(address: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "from ope_bench.cli import main; main()"
    words = ["run", "--env", "acme-coin", "--est", "acme-mean", "--replicates", "2"]
    words += ["--store", "s.sqlite", "--executor", "dask", "--address", address]
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ACME), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )


def test_the_documented_environment_is_enough_and_needed(
    address: str, settings: dict[str, str], tmp_path: Path
) -> None:
    done = ope_bench(address, tmp_path, **settings)
    assert done.returncode == 0, done.stderr
    # This process has none of it.
    with pytest.raises(UsageError, match="it asks for certificates") as refused:
        DaskExecutor([], address=address).connect()
    assert "\n" not in str(refused.value)
