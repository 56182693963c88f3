"""The environments of other people's libraries, which benchmarks and nightly tests share."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import pytest
from benchmarks import peers


def test_an_environment_is_made_once_however_many_ask_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = []

    def create(folder: Path, **_: bool) -> None:
        made.append(folder)
        sleep(0.1)  # long enough for the others to come
        folder.mkdir(exist_ok=True)

    monkeypatch.setattr(peers, "HOME", tmp_path / "peers")
    monkeypatch.setattr(peers.venv, "create", create)
    monkeypatch.setattr(peers.subprocess, "run", lambda *_, **__: None)
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: peers.interpreter("shared", ["one"]), range(4)))
    assert len(made) == 1
    assert found == {tmp_path / "peers" / "shared" / "bin" / "python"}
    peers.interpreter("shared", ["one", "another"])
    assert len(made) == 2  # other packages
