"""A path that the system refuses is an error that names it, whichever command it was given to, and never a traceback."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.engines.base import OWNER_LOG_VARIABLE
from discreet.engines.duckdb.engine import DuckDB
from discreet.errors import BadParameter, LedgerUnavailable, SourceRefused
from discreet.formats import to_csv, write_parquet
from discreet.ledger import open_ledger
from discreet.ledger.keys import default_key_path
from discreet.paths import create_file, move_new
from discreet.session.connect import connect
from discreet.workload.publishing import _require_known_key
from discreet.workload.spec import parse_workload, read_workload
from tests.ordinary_user import ordinary_user
from tests.support.console import run

PEOPLE = "id,dept\n1,a\n2,b\n"
SQL = "SELECT COUNT(*) AS n FROM people"
PAID = ("--unit", "id", "--epsilon", "0.01")
PLAN = """
source = {source}
unit = "id"
[budget]
epsilon = 1
{ledger}
[questions.heads]
sql = "SELECT COUNT(*) AS n FROM people"
"""


@cache
def make_files() -> dict[str, tuple[int, bytes]]:
    """All that a command needs: the mode and the bytes of each file. They are made once and written for every test."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "people.csv").write_text(PEOPLE)
        run("policy", "init", folder / "people.csv", "--unit", "id", "--out", folder / "policy.toml")
        run("ledger", "open", folder / "l", "--account", "hr", "--epsilon", "1")
        (folder / "plan.toml").write_text(PLAN.format(source='"people.csv"', ledger=""))
        (folder / "paid.toml").write_text(PLAN.format(source='"people.csv"', ledger='ledger = "l"'))
        return {path.name: (path.stat().st_mode, path.read_bytes()) for path in folder.iterdir()}


def prepare(folder: Path) -> None:
    for name, (mode, data) in make_files().items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(mode)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A folder whose `closed` is a file: nothing can be below it. What is imported when it is needed is so before `nobody`
    comes, who may not read Python's own files if they are in root's home."""
    prepare(tmp_path)
    (tmp_path / "closed").touch()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "p.parquet")
    connect(str(tmp_path / "p.parquet"), unit="id", epsilon=1)
    return tmp_path


@contextmanager
def closed_folder() -> Iterator[Path]:
    """A folder of an ordinary user's, whose `closed` that user may not look into."""
    for module in ("matplotlib.pyplot", "scipy.special"):  # their files may be in the home of who runs the tests
        import_module(module)
    with ordinary_user(), TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        folder = Path(name).resolve()
        patched.setenv("DISCREET_STATE", str(folder / "state"))
        prepare(folder)
        closed = folder / "closed"
        closed.mkdir()
        for file in ("l", "people.csv", "policy.toml"):
            (closed / file).write_bytes((folder / file).read_bytes())
        closed.chmod(0)
        try:
            yield folder
        finally:
            closed.chmod(0o700)


@pytest.fixture
def here(there: Path) -> Iterator[Path]:
    with closed_folder() as folder:
        yield folder


ASK = ("ask", "{here}/people.csv", SQL, *PAID)
COMMANDS: dict[str, tuple[str, ...]] = {
    "ask, source": ("ask", "{path}.csv", SQL, *PAID),
    "ask, pattern": ("ask", "{path}/*.parquet", SQL, *PAID),
    "ask, folder": ("ask", "{path}", SQL, *PAID),
    "ask, database": ("ask", "{path}.duckdb", SQL, "--table", "people", *PAID),
    "ask, policy": ("ask", "{here}/people.csv", SQL, "--epsilon", "0.01", "--policy", "{path}.toml"),
    "ask, public": (*ASK, "--public", "cities={path}.csv"),
    "ask, ledger": (*ASK[:-2], "--epsilon", "0.01", "--ledger", "{path}"),
    "ask, release": (*ASK, "--ledger", "{here}/l", "--release", "{path}"),
    "ask, key": (*ASK, "--ledger", "{here}/l", "--release", "{here}/r", "--key", "{path}"),
    "quote": ("quote", "{path}.csv", SQL, *PAID),
    "policy init, source": ("policy", "init", "{path}.csv", "--unit", "id", "--out", "-"),
    "policy init, out": ("policy", "init", "{here}/people.csv", "--unit", "id", "--out", "{path}"),
    "policy check, source": ("policy", "check", "{path}.csv", "{here}/policy.toml"),
    "policy check, policy": ("policy", "check", "{here}/people.csv", "{path}"),
    "ledger open": ("ledger", "open", "{path}", "--account", "hr", "--epsilon", "1"),
    "ledger check": ("ledger", "check", "{path}"),
    "ledger check, head": ("ledger", "check", "{here}/l", "--head", "{path}"),
    "ledger head": ("ledger", "head", "{path}"),
    "ledger head, key": ("ledger", "head", "{here}/l", "--key", "{path}"),
    "ledger key": ("ledger", "key", "{path}"),
    "ledger key, key": ("ledger", "key", "{here}/l", "--key", "{path}"),
    "ledger rotate-key": ("ledger", "rotate-key", "{path}"),
    "ledger rotate-key, key": ("ledger", "rotate-key", "{here}/l", "--key", "{path}"),
    "budget": ("budget", "{path}"),
    "verify": ("verify", "{path}"),
    "verify, key": ("verify", "{here}/policy.toml", "--key", "{path}"),
    "verify, ledger": ("verify", "{here}/policy.toml", "--ledger", "{path}"),
    "source list": ("source", "list", "--ledger", "{path}"),
    "source lift": ("source", "lift", "people.csv", "--ledger", "{path}"),
    "publish": ("publish", "{path}", "--yes"),
    "publish, to": ("publish", "{here}/plan.toml", "--yes", "--to", "{path}"),
    "publish, to, force": ("publish", "{here}/plan.toml", "--yes", "--to", "{path}", "--force"),
    "publish, key": ("publish", "{here}/paid.toml", "--yes", "--to", "{here}/out", "--key", "{path}"),
    "plan, plot": ("plan", "count", "--error", "5", "--plot", "{path}.png"),
    "epsilon, plot": ("epsilon", "laplace(scale=1)", "--delta", "1e-6", "--plot", "{path}.png"),
    "audit, pairs": ("audit", "discreet.mechanisms:Laplace", "--epsilon", "1", "--pairs", "{path}"),
    "lab show": ("lab", "show", "noise-l1", "--save", "{path}.png"),
    "lab all": ("lab", "all", "--out", "{path}"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_that_the_system_refuses_is_refused_by_its_name(command: str, there: Path) -> None:
    def try_at(here: Path, name: str) -> str:
        path = here / "closed" / name
        said = refused_by_name(path, *(part.format(path=path, here=here) for part in COMMANDS[command]))
        [account] = json.loads(run("budget", here / "l", "--json").stdout)["accounts"]
        assert account["entries"] == 0
        return said

    try_at(there, "people")
    with closed_folder() as here:
        for name in ("people", "missing"):
            assert "Permission denied" in try_at(here, name)


def refused_by_name(path: Path, *command: str) -> str:
    done = run(*command)
    assert done.returncode in (1, 2, 3, 4), done
    assert str(path) in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("command", ["ask", "source"])
def test_a_state_in_a_closed_folder_is_refused_by_its_name(
    command: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for state in (here / "closed", here / "closed" / "state"):
        monkeypatch.setenv("DISCREET_STATE", str(state))
        refused_by_name(state, *({"ask": ("ask", str(here / "people.csv"), SQL, *PAID)}.get(command, ("source", "list"))))


def test_an_owners_log_in_a_closed_folder_is_refused_by_its_name(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWNER_LOG_VARIABLE, str(here / "closed" / "log"))
    refused_by_name(here / "closed" / "log", "ask", str(here / "people.csv"), SQL, *PAID)


def test_a_folder_that_cannot_be_looked_into_is_not_replaced(here: Path) -> None:
    for mode in (0, 0o600):
        (here / "closed").chmod(mode)
        refused_by_name(here / "closed", "publish", str(here / "plan.toml"), "--yes", "--to", f"{here}/closed", "--force")
    (here / "closed").chmod(0o700)
    assert (here / "closed" / "people.csv").read_text() == PEOPLE
    assert not list(here.glob(".closed*"))


@pytest.mark.parametrize("ending", ["csv", "parquet", "duckdb"])
def test_a_file_that_may_not_be_read_is_not_blamed_on_its_format(ending: str, here: Path) -> None:
    file = here / f"mine.{ending}"
    table = pa.table({"id": [1, 2]})
    if ending == "duckdb":
        duckdb.connect(str(file)).execute("CREATE TABLE mine (id INT)").close()
    else:
        file.write_text(PEOPLE) if ending == "csv" else pq.write_table(table, file)
    file.chmod(0)
    sources = [str(file)] if ending == "duckdb" else [str(file), str(here / f"m*.{ending}")]
    for source in sources:
        with pytest.raises(SourceRefused, match=r"cannot be read \(Permission denied\)\. Allow reading it") as refused:
            connect(source, table="mine", unit="id", epsilon=1)
        assert source in str(refused.value)


@pytest.mark.parametrize("source", ["closed/people.csv", "closed/*.csv", "closed/p/*.parquet", "closed"])
def test_a_closed_folder_is_said_to_be_closed(source: str, here: Path) -> None:
    with pytest.raises(SourceRefused, match=r"a folder that cannot be listed \(Permission denied\)"):
        connect(str(here / source), unit="id", epsilon=1)


def test_a_folder_of_parquet_files_with_a_closed_one_in_it_is_refused(here: Path) -> None:
    """The engine would leave out its files without a word."""
    for part in ("open", "shut"):
        (here / "parts" / part).mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), here / "parts" / part / "p.parquet")
    assert len(DuckDB.open(here / "parts").files) == 2
    (here / "parts" / "shut").chmod(0)
    with pytest.raises(SourceRefused, match="cannot be listed"):
        DuckDB.open(here / "parts")
    (here / "parts" / "shut").chmod(0o700)


def test_a_retry_of_a_publication_names_what_it_may_not_read(here: Path) -> None:
    with pytest.raises(BadParameter, match=r"KEY is .*closed.*Permission denied"):
        _require_known_key(here, here / "closed" / "key", here / "l")
    (here / "l.key").write_text("a key")
    with pytest.raises(BadParameter, match=r"release\.json is .*closed.*Permission denied"):
        _require_known_key(here / "closed", here / "l.key", here / "l")


def test_tables_are_written_where_they_can_be(here: Path) -> None:
    for write in (lambda path: to_csv(["n"], [(1,)], path), lambda path: write_parquet(["n"], [(1,)], path)):
        with pytest.raises(BadParameter, match=r"path is .*closed.*Permission denied"):
            write(here / "closed" / "n")


@pytest.mark.parametrize("path", ["~nobody-of-this-name/l", "a\0b", "loop"])
def test_paths_that_lead_nowhere(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    for refused in (open_ledger, default_key_path):
        with pytest.raises(LedgerUnavailable, match="ledger "):
            refused(path)
    with pytest.raises(SourceRefused):
        read_workload(path)
    with pytest.raises(SourceRefused):
        connect("loop.csv" if path == "loop" else f"{path}.csv", policy=path, unit="id", epsilon=1)


def test_a_plan_with_the_home_of_nobody(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=r"source is '~nobody-of-this-name/x\.csv': cannot be resolved"):
        parse_workload('source = "~nobody-of-this-name/x.csv"\n[budget]\nepsilon = 1\n[questions.q]\nsql = "x"', tmp_path)


def test_a_file_is_made_once_and_never_opened_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To close a handle of it would take SQLite's locks off it."""
    opened, file, system_open = list[str](), tmp_path / "hr.ledger", os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: (opened.append(str(path)), system_open(path, *rest))[1])
    create_file(file)
    assert (file.stat().st_mode & 0o777, file.read_bytes()) == (0o600, b"")
    file.write_bytes(b"kept")
    create_file(file)
    monkeypatch.setattr(os.path, "lexists", lambda path: False)  # it comes after it was looked for
    create_file(file)
    assert file.read_bytes() == b"kept"
    assert opened
    assert str(file) not in opened
    assert [*tmp_path.iterdir()] == [file]


def test_a_file_is_made_where_the_file_system_has_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As exFAT has none. What comes meanwhile is kept."""
    file = tmp_path / "hr.ledger"

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    create_file(file)
    assert (file.stat().st_mode & 0o777, file.read_bytes()) == (0o600, b"")
    file.write_bytes(b"kept")
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    create_file(file)
    assert file.read_bytes() == b"kept"
    (tmp_path / "part").write_bytes(b"new")
    with pytest.raises(FileExistsError):
        move_new(tmp_path / "part", file)
    assert file.read_bytes() == b"kept"
    file.unlink()
    move_new(tmp_path / "part", file)
    assert file.read_bytes() == b"new"
    assert [*tmp_path.iterdir()] == [file]
