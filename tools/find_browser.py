"""Find the Chromium that tests look at pages with: `python tools/find_browser.py`; `--install` installs it where it can.

$CHROMIUM comes first, then a program on the PATH. If there is none, Debian's package is installed by apt, but only as root,
which needs no password.
"""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ADVICE = (
    "No Chromium was found. Install one (Debian and Ubuntu: sudo apt-get install chromium), or set CHROMIUM to the path of "
    "one."
)


def find_browser() -> str | None:
    """Return the path of Chromium, or None. A $CHROMIUM that is no program is refused."""
    named = os.environ.get("CHROMIUM")
    if named:
        found = shutil.which(named)
        if found is None:
            sys.exit(f"CHROMIUM is {named!r}, which is no program. Set it to the path of Chromium, or unset it.")
        return found
    return next((found for name in NAMES if (found := shutil.which(name)) is not None), None)


def install_browser() -> None:
    """Install Debian's package as root; do nothing elsewhere."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (("update", "-qq"), ("install", "-qq", "-y", "--no-install-recommends", "chromium")):
        if subprocess.run([apt, *arguments], env=environment, stdout=subprocess.DEVNULL, check=False).returncode:
            return


def main(arguments: list[str]) -> None:
    """Print the path, or exit with advice."""
    found = find_browser()
    if found is None and "--install" in arguments:
        install_browser()
        found = find_browser()
    sys.exit(ADVICE) if found is None else print(found)


if __name__ == "__main__":
    main(sys.argv[1:])
