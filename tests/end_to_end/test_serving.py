"""Two commands, `pip install 'discreet[serve]'` and `discreet serve examples/`, from the wheel and what its extra requires:
the one-time link, then an answer from Python, a shell and a notebook."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.wheel import ROOT, link_alone, list_requirements, read_metadata, unpack

RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from discreet.cli import main; main()"
NOTEBOOK = """
import sys
sys.path.insert(0, sys.argv[1])
import json, discreet

class Shell:
    user_ns, magics = {}, {}
    def register_magic_function(self, function, kind, name): self.magics[name] = function
    def push(self, named): self.user_ns.update(named)

people = discreet.connect(sys.argv[2])
counted = people.ask("SELECT COUNT(*) AS n FROM people", epsilon=0.1)
shell = Shell()
discreet.load_ipython_extension(shell)
shell.magics["discreet"](sys.argv[2])
shell.magics["ask"]("epsilon=0.1 -o answer", "SELECT dept, AVG(pay) AS mean FROM people GROUP BY dept")
means = shell.user_ns["answer"]
print(json.dumps([len(counted.rows), [row["dept"] for row in means.to_dicts()], discreet.__file__]))
"""


@pytest.fixture(scope="module")
def place(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and what its extra requires, as pip would install them."""
    unpacked = unpack(wheel, tmp_path_factory.mktemp("site"))
    names = list_requirements(read_metadata(unpacked), "serve", "remote", "plot", "arrow")
    return link_alone(unpacked, [each for each in names if each != "discreet"], tmp_path_factory.mktemp("alone"))


def test_the_first_remote_answer_of_an_installed_service(place: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DISCREET", "VIRTUAL"))}
    clean |= {"DISCREET_STATE": str(tmp_path / "state"), "DISCREET_CONFIG": str(tmp_path / "config"), "NO_COLOR": "1"}
    alone = [sys.executable, "-I", "-S", "-c"]

    def run(program: str, *arguments: str, token: str) -> subprocess.CompletedProcess[str]:
        command = [*alone, program, str(place), *arguments]
        env = clean | {"DISCREET_TOKEN": token}
        return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=env, check=False)

    serving = [*alone, RUN, str(place), "serve", "examples/", "--port", "0", "--no-browser"]
    with subprocess.Popen(serving, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=clean) as service:
        assert service.stdout is not None
        try:
            printed = "".join(iter(service.stdout.readline, "End it with Ctrl+C.\n"))
            [(table, token)] = re.findall(r'connect\("(\S+)", token="(dsc_\S+)"\)', printed)
            [link] = re.findall(r"open\s+(\S+/in\?once=\S+)", printed)
            with httpx.Client(verify=False, follow_redirects=True) as browser:
                assert browser.get(link).status_code == 200
                assert "people" in browser.get(table.removesuffix("/people")).text
            assert httpx.get(link, verify=False).status_code == 403  # it worked once
            notebook = run(NOTEBOOK, table, token=token)
            assert notebook.returncode == 0, notebook.stderr
            rows, departments, file = json.loads(notebook.stdout)
            assert (rows, departments) == (1, ["sales", "research", "legal"])
            assert Path(file).is_relative_to(place)
            question = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
            shell = run(RUN, "ask", table, question, "--epsilon", "0.1", token=token)
            assert (shell.returncode, "research" in shell.stdout) == (0, True), shell.stderr
        finally:
            service.terminate()
    assert service.returncode == 0
