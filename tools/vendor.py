"""Fetch files of others by `npm pack`, and check them against the hashes in VENDOR.toml: `python tools/vendor.py`.

- What the pages load lies in `src/discreet/serve/web/static/vendor/`, with its licence, and is part of the wheel. A test
  compares hashes, so a file that was changed or exchanged is noticed.
- axe-core, which tests look for barriers with, is under the MPL and stays out of the wheel: `fetch_axe` keeps it in a folder
  outside of the repository's packages.

No source map is kept, and no page loads anything from another place.
"""

import os
import subprocess
import sys
import tarfile
import tomllib
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parent.parent / "src/discreet/serve/web/static/vendor"
AXE_VERSION = "4.14.0"
AXE_SHA256 = "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"


def fetch(package: str, version: str, names: tuple[str, ...]) -> dict[str, bytes]:
    """Return files of a package, by their path in it."""
    with TemporaryDirectory() as folder:
        command = ["npm", "pack", f"{package}@{version}", "--silent", "--ignore-scripts"]
        packed = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1]
        with tarfile.open(Path(folder) / packed) as archive:
            return {name: _read(archive, f"package/{name}") for name in names}


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        sys.exit(f"{name} is not in the package.")
    return file.read()


def check(name: str, content: bytes, expected: str) -> bytes:
    """Return the content if it has the expected hash; else exit."""
    found = sha256(content).hexdigest()
    if found != expected:
        sys.exit(f"{name} has the SHA-256 {found}, and VENDOR.toml states {expected}. Do not use it.")
    return content


def find_cache() -> Path:
    """Return the folder for what tests fetch: $DISCREET_TEST_CACHE, or one in the user's cache."""
    named = os.environ.get("DISCREET_TEST_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "discreet-tests"


def fetch_axe() -> Path:
    """Return the path of axe-core, which is fetched once."""
    path = find_cache() / f"axe-{AXE_VERSION}.min.js"
    if not path.exists():
        content = check("axe.min.js", fetch("axe-core", AXE_VERSION, ("axe.min.js",))["axe.min.js"], AXE_SHA256)
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_suffix(f".{os.getpid()}")
        made.write_bytes(content)
        made.replace(path)
    check("axe.min.js", path.read_bytes(), AXE_SHA256)
    return path


def main(arguments: list[str]) -> None:
    """Fetch what VENDOR.toml lists, or with `--axe` what tests need."""
    if "--axe" in arguments:
        print(fetch_axe())
        return
    for name, entry in tomllib.loads((FOLDER / "VENDOR.toml").read_text(encoding="utf-8")).items():
        found = fetch(entry["package"], entry["version"], (entry["path"], entry["licence_path"]))
        (FOLDER / name).write_bytes(check(name, found[entry["path"]], entry["sha256"]))
        (FOLDER / entry["licence_file"]).write_bytes(found[entry["licence_path"]])
        print(f"{name}: {entry['package']} {entry['version']}, {entry['licence']}")


if __name__ == "__main__":
    main(sys.argv[1:])
