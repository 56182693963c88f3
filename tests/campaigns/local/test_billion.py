"""A billion reports are counted in DuckDB within two minutes and a gigabyte."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import local

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("name", ["k-RR 128", "Hadamard 128", "projective 16384"])
def test_a_billion_reports_are_counted_in_two_minutes_and_a_gigabyte(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "DATA", tmp_path)
    path = local.write_reports(local.ENGINE_ORACLES[name], 10**9)
    command = [sys.executable, str(local.__file__), "count", name, str(path)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    print(name, found)
    assert found["n"] == 10**9
    assert found["ours"] <= local.SECONDS
    assert found["megabytes"] <= local.MEMORY
