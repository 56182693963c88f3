"""Run a notebook, given on standard input, in a real kernel that starts in the folder named: python kernel.py FOLDER

The notebook with its outputs is printed.

A program of its own, because the libraries of Jupyter leave sockets open, and here a warning is an error.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from nbformat import NotebookNode, reads, v4, writes


def notebook_of(texts: Iterable[str]) -> NotebookNode:
    """Make a notebook of these cells of code."""
    return v4.new_notebook(cells=[v4.new_code_cell(text) for text in texts])


def run_in_kernel(notebook: NotebookNode, folder: Path) -> str:
    """Run every cell; return what the kernel says if a cell raises, and nothing otherwise."""
    done = _start(notebook, folder)
    return done.stderr if done.returncode else ""


def fill_outputs(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Run every cell, and return the notebook with its outputs."""
    done = _start(notebook, folder)
    assert done.returncode == 0, done.stderr
    return reads(done.stdout, as_version=4)


def _start(notebook: NotebookNode, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", __file__, str(folder)], input=writes(notebook), capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip


def main() -> None:
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    with TemporaryDirectory() as sockets:  # a short path, as sockets need one; nothing listens on the network
        manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/kernel")
        notebook = reads(sys.stdin.read(), as_version=4)
        NotebookClient(notebook, km=manager, timeout=300, resources={"metadata": {"path": sys.argv[1]}}).execute()
        print(writes(notebook))


if __name__ == "__main__":
    main()
