# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Dependencies: rooms of the package, crates, and the modules of a crate."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import perigee
from conftest import ROOT, tool

PACKAGE = ROOT / "python" / "perigee"
ROOMS = (
    "",
    "cc",
    "stacks",
    "store",
    "statistics",
    "measuring",
    "analysis",
    "engines",
    "matrix",
    "agents",
    "keeper",
    "evaluation",
    "attack",
    "fitness",
    "standing",
    "fitting",
    "importing",
    "groups",
    "comparison",
    "scoring",
    "campaigns",
    "report",
    "api",
    "advice",
    "laboratory",
    "commands",
)
"""Each imports itself and those before it only; the first are the modules of `perigee` itself."""
SLOW = ("matplotlib", "numpy", "polars")


def modules() -> dict[str, Path]:
    """The package's modules by name, without data that only looks like modules."""
    files = [path for path in PACKAGE.rglob("*.py") if "data" not in path.relative_to(PACKAGE).parts]
    return {".".join(path.relative_to(ROOT / "python").with_suffix("").parts): path for path in files}


def statements(node: ast.AST, types: bool = False) -> Iterator[ast.AST]:
    """All below a node that is executed; what stands under `if TYPE_CHECKING` only with `types`."""
    for child in ast.iter_child_nodes(node):
        if (
            not types
            and isinstance(child, ast.If)
            and isinstance(child.test, ast.Name)
            and child.test.id == "TYPE_CHECKING"
        ):
            continue
        yield child
        yield from statements(child, types)


def imports(path: Path, known: dict[str, Path], types: bool = False) -> set[str]:
    """The modules of the package that a file imports, at its head or within a function; with `types` for them too."""
    found = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8")), types):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "perigee":
            for name in (f"{node.module}.{alias.name}" for alias in node.names):
                found.add(next((each for each in (name, f"{name}.__init__", node.module) if each in known), ""))
    return found - {""}


def room(module: str) -> str:
    """The package within `perigee` that a module belongs to."""
    parts = module.removesuffix(".__init__").split(".")
    return parts[1] if len(parts) > 2 or (PACKAGE / parts[-1]).is_dir() else ""


def test_results_and_the_analysis_of_captures_depend_on_no_engine() -> None:
    def below(crate: str) -> set[str]:
        """The crates of the workspace that a crate is made of."""
        manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
        own = {name for name in manifest.get("dependencies", {}) if name.startswith("perigee-")}
        return own.union(*map(below, own))

    assert below("perigee-results") == {"perigee-units"}
    assert below("perigee-analyze") == {"perigee-results", "perigee-wire", "perigee-units"}


def test_the_proxy_is_built_without_studies_and_orbits() -> None:
    command = ["cargo", "tree", "--offline", "--package", "perigee-pep", "--edges", "no-dev", "--prefix", "none"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    crates = {line.split()[0] for line in done.stdout.splitlines() if line}
    assert {crate for crate in crates if crate.startswith("perigee-")} == {
        "perigee-cc",
        "perigee-pep",
        "perigee-quic",
        "perigee-share",
        "perigee-text",
        "perigee-units",
        "perigee-wire",
    }
    assert "sgp4" not in crates


def test_the_package_has_no_circular_imports() -> None:
    known = modules()
    graph = {name: imports(path, known) for name, path in known.items()}
    assert sum(map(len, graph.values())) > len(graph), "the graph is empty"
    graphlib.TopologicalSorter(graph).prepare()


def test_the_interface_of_scripts_has_no_circle_even_between_types() -> None:
    known = {name: path for name, path in modules().items() if room(name) == "api"}
    graph = {name: imports(path, known, types=True) for name, path in known.items()}
    assert "perigee.api.comparison" in graph["perigee.api.results"]
    graphlib.TopologicalSorter(graph).prepare()


def test_no_module_of_the_package_imports_the_package_itself() -> None:
    """The version has a module of its own; `import perigee` is for scripts."""
    for name, path in modules().items():
        for node in statements(ast.parse(path.read_text(encoding="utf-8")), types=True):
            if isinstance(node, ast.ImportFrom) and node.module == "perigee":
                assert not set(perigee.__all__) & {alias.name for alias in node.names}, name


def test_each_room_of_the_package_imports_only_those_below_it() -> None:
    known = modules()
    wrong = [
        f"{name} imports {other}"
        for name, path in known.items()
        if name not in ("perigee.__main__", "perigee.__init__")
        for other in imports(path, known)
        if ROOMS.index(room(other)) > ROOMS.index(room(name))
    ]
    assert not wrong


def loaded(code: str) -> set[str]:
    """The modules that a process has imported when some code has ended."""
    listed = f"import sys\ntry:\n    {code}\nfinally: print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


def test_commands_that_need_no_tables_import_none_of_the_slow_libraries() -> None:
    for words in (["--version"], ["--help"], ["run", "--help"], ["run", "claypool-2021", "--dry-run"]):
        names = loaded(f"from perigee.__main__ import main; sys.argv[1:] = {words}; main()")
        assert "perigee.commands.app" in names
        assert not set(SLOW) & names, words


def test_the_help_of_the_program_needs_neither_its_commands_nor_what_reads_command_lines() -> None:
    for words in (["--help"], ["-h"], ["--version"]):
        names = loaded(f"from perigee.__main__ import main; sys.argv[1:] = {words}; main()")
        assert not {"typer", "rich", "perigee.core", "perigee.commands.run"} & names, words


def test_studies_and_profiles_in_python_need_no_tables_and_results_need_only_those_they_read() -> None:
    said = "import perigee; perigee.Study.load('claypool-2021').set('rounds', 1); perigee.Profile.load('geo')"
    assert not set(SLOW) & loaded(said)
    assert not {"matplotlib"} & loaded("import perigee; perigee.load")


def test_the_map_of_the_crates_is_what_cargo_and_the_sources_say() -> None:
    drawing = tool("architecture")
    architecture = drawing.Architecture.load()
    assert list(drawing.findings(architecture, drawing.linked())) == []


def test_the_map_names_a_dependency_that_is_not_allowed_and_one_that_is_gone() -> None:
    drawing = tool("architecture")
    code = drawing.linked()
    code["perigee-link"] = {"perigee-study"}
    findings = list(drawing.findings(drawing.Architecture.load(), code))
    assert any("perigee-link may not depend on perigee-study" in finding for finding in findings)
    assert any("perigee-link does not depend on perigee-units" in finding for finding in findings)


def crate(folder: Path, modules: dict[str, str]) -> Path:
    """A folder of crates with one crate, whose modules have these texts."""
    for name, text in modules.items():
        path = folder / "made-up" / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_no_crate_has_a_circle_between_its_modules() -> None:
    assert list(tool("architecture").circles(ROOT / "crates")) == []


def test_a_circle_between_modules_is_found_through_re_exports(tmp_path: Path) -> None:
    modules = {
        "lib.rs": "mod a;\nmod b;\nmod c;\n",
        "a.rs": "use crate::b::{self, Made as Other};\n",
        "b/mod.rs": "mod inner;\npub use inner::Made;\n",
        "b/inner.rs": "pub struct Made(crate::c::Shared);\n",
        "c.rs": "pub struct Shared;\nfn f() { super::a::run() }\n",
    }
    (circle,) = tool("architecture").circles(crate(tmp_path, modules))
    assert circle.startswith("crates/made-up: a, b::inner, c use each other")


def test_a_child_that_uses_its_parent_is_a_circle_where_the_parent_uses_it(tmp_path: Path) -> None:
    modules = {
        "lib.rs": "mod a;\n",
        "a.rs": "mod child;\npub struct Item;\nfn f() { child::g(&Item) }\n",
        "a/child.rs": "pub fn g(_: &super::Item) {}\n",
    }
    (circle,) = tool("architecture").circles(crate(tmp_path, modules))
    assert circle.startswith("crates/made-up: a, a::child use each other")


def test_declarations_comments_strings_and_tests_make_no_circle(tmp_path: Path) -> None:
    a = """\
//! As [`crate::b`].
pub struct Item;
const QUOTE: char = '"';
const TEXT: &str = "crate::b::g";
#[cfg(test)]
mod tests {
    use crate::b::g;
}
"""
    modules = {
        "lib.rs": "pub mod a;\npub mod b;\npub use a::Item;\npub use b::g;\n",
        "a.rs": a,
        "b.rs": "pub fn g(_: &crate::Item) {}\n",
    }
    architecture = tool("architecture")
    assert list(architecture.circles(crate(tmp_path, modules))) == []
    assert list(architecture.circles(crate(tmp_path, {**modules, "a.rs": a + "fn f() { crate::b::g(&Item) }\n"})))


def test_every_file_of_a_crates_tests_is_in_a_program() -> None:
    for manifest in sorted(ROOT.glob("crates/*/Cargo.toml")):
        stated = tomllib.loads(manifest.read_text("utf-8"))
        if stated["package"].get("autotests", True):
            continue
        folder = manifest.parent / "tests"
        programs = {Path(program["path"]).stem for program in stated["test"]}
        modules = set(re.findall(r"^mod (\w+);", (folder / "main.rs").read_text("utf-8"), re.MULTILINE))
        assert {path.stem for path in folder.glob("*.rs")} <= programs | modules, folder
