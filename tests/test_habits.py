"""The project's habits are true: what CONTRIBUTING.md, the hooks, the CI workflow and the issue forms say is what is there.

Each check is a function of a text, so that it can also be run on a wrong one (the mutant), which it must reject.
"""

import os
import re
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

import discreet

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "GLOSSARY.md", "tests/README.md")
YAML_FILES = [ROOT / ".pre-commit-config.yaml", ROOT / "mkdocs.yml", *sorted((ROOT / ".github").rglob("*.yml"))]
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
DISTRIBUTIONS = {"lint-imports": "import-linter"}
"""Programs that are not called as their distribution is."""


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


# -- pages: paths, links, version ------------------------------------------------------------------------------------------


def missing_paths(text: str) -> set[str]:
    """The paths in backticks that do not exist; of `a/<name>.py` the folder `a` must."""
    named = re.findall(r"`((?:src|tests|docs|tools|examples|\.github)/[^\s`]*|[\w.-]+\.(?:md|toml|yaml|yml))`", text)
    found = {path.partition("<")[0] if "<" in path else path.partition("::")[0] for path in named}
    return {path for path in found if not (ROOT / path).exists()}


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(text: str, folder: Path) -> list[str]:
    """The relative links of a page that lead nowhere, by file or by heading."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        path, _, anchor = link.partition("#")
        target = folder / path
        if "://" in link or (target.exists() and (not anchor or anchor in anchors(target))):
            continue
        broken.append(link)
    return broken


def test_contributing_and_the_tests_readme_name_paths_that_exist() -> None:
    missing = set().union(*(missing_paths(read(page)) for page in ("CONTRIBUTING.md", "tests/README.md")))
    assert missing == set()


def test_a_path_that_does_not_exist_is_noticed() -> None:
    text = "in `src/discreet/nowhere.py` and `src/discreet/nowhere/<name>.py`, not `src/discreet/engines/<name>/` or `Cost`"
    assert missing_paths(text) == {"src/discreet/nowhere.py", "src/discreet/nowhere/"}


def packages_on_the_map(text: str) -> set[str]:
    return set(re.findall(r"^  (\w+)/ ", text, re.MULTILINE))


def test_the_map_of_the_readme_has_every_package() -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "discreet").glob("*/__init__.py")}
    assert packages_on_the_map(read("README.md")) == packages
    assert packages_on_the_map(read("README.md").replace("  learn/ ", "  ")) != packages


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "decisions").glob("*.md")), ids=lambda page: page.stem)
def test_a_decision_names_paths_and_tests_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert missing_paths(text) == set()
    assert [name for name in re.findall(r"`(test_\w+)`", text) if f"def {name}(" not in tests] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    assert broken_links(read(page), (ROOT / page).parent) == []


def test_a_link_that_leads_nowhere_is_noticed() -> None:
    wrong = "[a](nowhere.md), [b](README.md#no-such-heading), [c](CONTRIBUTING.md#set-up), [d](https://example.org/x)"
    assert broken_links(wrong, ROOT) == ["nowhere.md", "README.md#no-such-heading"]


def test_contributing_has_a_checklist_for_everything_that_is_open() -> None:
    lists = re.findall(r"^### Add an? (.*)\n\n1\. ", read("CONTRIBUTING.md"), re.MULTILINE)
    assert lists == ["mechanism", "local mechanism", "aggregate", "engine", "currency", "ledger store"]


def test_the_newest_dated_section_of_the_changelog_is_this_version() -> None:
    sections = re.findall(r"^## (.*)$", read("CHANGELOG.md"), re.MULTILINE)
    released = [section for section in sections if section != "Unreleased"]
    dated = [re.fullmatch(r"(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)", section) for section in released]
    assert all(dated), "every release has its date"
    assert dated[0] is not None
    assert dated[0][1] == discreet.__version__


# -- make, the hooks and the workflow run the same commands -----------------------------------------------------------------


def commands_of(target: str) -> list[str]:
    """The commands of a target of the Makefile, with its variables for paths replaced."""
    body = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert body is not None, f"the Makefile has no target {target}"
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in body[1].splitlines()]


def documented_targets() -> set[str]:
    """What `make help` lists."""
    return set(re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.MULTILINE))


def wrong_hooks(config: Any) -> list[str]:
    """What is wrong with the hooks: another repository, another command than `make check`, a tool without an exact pin."""
    pins = dict(line.split("==") for line in PROJECT["project"]["optional-dependencies"]["dev"] if "==" in line)
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    wrong = [repo["repo"] for repo in config["repos"] if repo["repo"] != "local"]
    wrong += [hook["id"] for hook in hooks if hook["language"] != "system" or "additional_dependencies" in hook]
    if [hook["entry"] for hook in hooks] != commands_of("check"):
        wrong.append("not the commands of `make check`")
    for hook in hooks:
        program = Path(hook["entry"].split()[0]).name
        name = DISTRIBUTIONS.get(program, program)
        if pins.get(name) != version(name):
            wrong.append(f"{name} {version(name)} is not the pinned version")
    return wrong


def test_the_hooks_are_make_check_in_the_pinned_versions() -> None:
    assert wrong_hooks(load(ROOT / ".pre-commit-config.yaml")) == []


def test_hooks_of_another_make_are_noticed() -> None:
    config = load(ROOT / ".pre-commit-config.yaml")
    config["repos"][0]["hooks"][0]["entry"] = ".venv/bin/ruff check src"
    assert wrong_hooks(config) == ["not the commands of `make check`"]
    config = load(ROOT / ".pre-commit-config.yaml")
    config["repos"][0]["repo"] = "https://example.org/ruff"
    assert wrong_hooks(config) == ["https://example.org/ruff"]


TOOLS = ("lint-imports", "mypy", "pytest", "python", "ruff")


def make_test(folder: Path, makefile: str, failing: str | None) -> "subprocess.CompletedProcess[str]":
    """Run `make test` with programs that print their names and succeed in place of all tools, but for one that fails."""
    (folder / "venv" / "bin").mkdir(parents=True)
    for tool in TOOLS:
        program = folder / "venv" / "bin" / tool
        program.write_text(f"#!/bin/sh\necho ran {tool} $1\nexit {int(tool == failing)}\n")
        program.chmod(0o755)
    (folder / "venv" / ".all").touch()  # nothing is installed
    (folder / "pyproject.toml").touch()
    os.utime(folder / "pyproject.toml", (0, 0))
    (folder / "Makefile").write_text(makefile, encoding="utf-8")
    command = ["make", "-C", str(folder), "VENV=venv", "WORKERS=1", "test"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # of an outer one
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)


@pytest.mark.parametrize("failing", [None, "lint-imports", "mypy", "pytest", "ruff"])
def test_make_test_runs_make_check_and_fails_with_it(failing: str | None, tmp_path: Path) -> None:
    done = make_test(tmp_path, MAKEFILE, failing)
    assert (done.returncode == 0) is (failing is None), done.stdout + done.stderr
    ran = {line.removeprefix("ran ").split()[0] for line in done.stdout.splitlines() if line.startswith("ran ")}
    expected = {None: set(TOOLS), "ruff": {"python", "pytest", "ruff"}, "mypy": {*TOOLS} - {"lint-imports"}}
    assert ran == expected.get(failing, set(TOOLS))
    assert done.stdout.count("ran ruff") == (1 if failing == "ruff" else 2)


def test_a_make_test_that_forgets_what_was_checked_is_noticed(tmp_path: Path) -> None:
    mutant = MAKEFILE.replace(" -a $$found -eq 0", "")
    assert mutant != MAKEFILE
    assert make_test(tmp_path, mutant, "mypy").returncode == 0


def test_every_target_is_documented() -> None:
    phony = set(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[0].split())
    assert documented_targets() == phony, "every target has a line in `make help`"


def test_the_workflow_and_the_local_runner_run_make_targets() -> None:
    workflow = load(ROOT / ".github" / "workflows" / "ci.yml")
    runs = {job: [step["run"] for step in body["steps"] if "run" in step] for job, body in workflow["jobs"].items()}
    assert runs == {"test": ["make test"], "docs": ["make docs"], "nightly": ["make nightly"]}
    assert {command.removeprefix("make ") for commands in runs.values() for command in commands} <= documented_targets()
    assert runs["test"] == [line for line in read(".ci/run").splitlines() if line.startswith("make ")]


def test_the_workflow_covers_the_oldest_python_and_brings_java_and_node() -> None:
    jobs = load(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    pythons = jobs["test"]["strategy"]["matrix"]["python"]
    assert PROJECT["project"]["requires-python"] == f">={pythons[0]}"
    for job in ("test", "nightly"):
        [java] = [step["with"] for step in jobs[job]["steps"] if step.get("uses", "").startswith("actions/setup-java@")]
        assert int(java["java-version"]) >= 17
        [node] = [step["with"] for step in jobs[job]["steps"] if step.get("uses", "").startswith("actions/setup-node@")]
        assert int(node["node-version"]) >= 20


def test_nightly_takes_by_marker_what_the_day_leaves() -> None:
    [tests] = [line for line in commands_of("test") if "/pytest" in line]
    assert tests.partition(";")[0] == ".venv/bin/pytest -n $(WORKERS) --dist worksteal -m 'not nightly'"
    assert commands_of("nightly") == [".venv/bin/pytest -n $(WORKERS) -m nightly"]


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "campaigns").rglob("test_*.py")), ids=lambda path: path.stem)
def test_every_file_of_campaigns_has_a_nightly_test(path: Path) -> None:
    assert "mark.nightly" in path.read_text(encoding="utf-8"), "tests that run by day only belong beside their package"


def unfreezing_files(texts: dict[str, str]) -> set[str]:
    """The files that let the garbage collector search again what pytest has collected."""
    return {name for name, text in texts.items() if re.search(r"\bunfreeze\(", text)}


def test_only_the_end_of_a_run_unfreezes_what_was_collected() -> None:
    """One test that does so makes every collection of every later test search millions of objects: half a second each."""
    paths = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    assert unfreezing_files(texts) == {"tests/conftest.py"}
    assert unfreezing_files({"a": "gc.freeze()", "b": "    gc.unfreeze()"}) == {"b"}


# -- YAML ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_every_yaml_file_can_be_read(path: Path) -> None:
    assert isinstance(load(path), dict)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_has_what_github_requires(path: Path) -> None:
    form = load(path)
    assert form["name"]
    assert form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in fields} <= {"input", "textarea", "dropdown", "checkboxes"}
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)


def test_a_new_mechanism_comes_with_definition_sensitivity_proof_and_tests() -> None:
    form = load(ROOT / ".github" / "ISSUE_TEMPLATE" / "mechanism.yml")
    required = [field["id"] for field in form["body"] if field.get("validations", {}).get("required")]
    assert {"definition", "sensitivity", "proof", "tests"} <= set(required)
