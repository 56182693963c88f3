"""`make demo-serve`: start a service on examples/, ask it one query as an analyst on another machine would, and end it.

The service runs in a process of its own with an empty state, so every demonstration starts with the whole budget; what it
keeps is removed afterwards. The client uses what the service prints: an address and a token.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

EXAMPLES = Path(__file__).parent.parent / "examples"
QUERY = "SELECT dept, COUNT(*) AS n, AVG(pay) AS mean_pay FROM people GROUP BY dept"
PRINTED = re.compile(r'discreet\.connect\("(?P<address>[^"]+)", token="(?P<token>dsc_[^"]+)"\)')


@contextmanager
def start_service(folder: Path) -> Iterator[tuple[str, str]]:
    """Serve examples/ on a free port. Yields the address of its table and a token."""
    places = {"DISCREET_STATE": folder / "state", "DISCREET_CONFIG": folder / "client"}
    environment = os.environ | {name: str(path) for name, path in places.items()} | {"COLUMNS": "300"}
    command = [sys.executable, "-m", "discreet", "serve", str(EXAMPLES), "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        found = None
        for line in process.stdout:
            print(f"  {line.rstrip()}")
            found = PRINTED.search(line) or found
            if "Ctrl+C" in line:
                break
        if found is None:
            sys.exit("The service did not start. What it printed says why.")
        yield found["address"], found["token"]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def main() -> None:
    """Run the demonstration."""
    started = time.monotonic()
    with TemporaryDirectory(prefix="discreet-demo-") as name:
        os.environ["DISCREET_CONFIG"] = str(Path(name) / "client")  # where the client remembers services
        print("$ discreet serve examples/")
        with start_service(Path(name)) as (address, token):
            import discreet

            print(f'\n>>> people = discreet.connect("{address}", token="dsc_…")')
            people = discreet.connect(address, token=token)
            print(f'>>> people.ask("{QUERY}", epsilon=0.5)')
            print(people.ask(QUERY, epsilon=0.5))
            answered = time.monotonic() - started
            print(f">>> people.budget\n{people.budget}")
            print(f"\nFirst remote answer after {answered:.1f} s. The service ends now.")


if __name__ == "__main__":
    main()
