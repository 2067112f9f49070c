"""Imports go one way, in the paper's order; optional dependencies live in one folder; `import errorfeedback` is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import errorfeedback

ROOT = Path(errorfeedback.__file__).parent
LAYERS = [
    {"__main__"},
    {"cli"},
    {"comparison", "exports", "federated"},
    {"experiments", "estimators", "interop"},
    {"report"},
    {"api"},
    {"planner", "interop"},
    {"runtime"},
    {"engines"},
    {"clients"},
    {"stepsizes"},
    {"theory", "probes", "directions", "downlinks"},
    {"methods"},
    {"smoothness", "compressors", "data"},
    {"wire"},
    {"problems"},
    {"sparsity"},
    {"plots"},
    {"keyed", "machine", "storage", "sums", "watchers", "certificates"},
    {"core", "registry", "extras", "caches", "notebook"},
]
CORE_DEPENDENCIES = {"numpy", "scipy", "numba", "sklearn", "joblib", "matplotlib", "typer", "rich"}


def rank(part):
    return next(level for level, layer in enumerate(LAYERS) if part in layer)


def imported(tree):
    """Dotted names that a module imports, also inside functions and as strings given to import_module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("import_module", "import_extra"):
            yield from (a.value for a in node.args[:1] if isinstance(a, ast.Constant))


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts != ("__init__",):
            yield parts[0], parts, ast.parse(path.read_text())


def parts_of(name):
    """The part of errorfeedback that a dotted name belongs to, if any."""
    words = name.split(".")
    known = set().union(*LAYERS)
    return words[1] if words[0] == "errorfeedback" and len(words) > 1 and words[1] in known else None


def violations(found):
    for part, path, tree in found:
        for target in {parts_of(name) for name in imported(tree)} - {None, part}:
            if rank(target) <= rank(part):
                yield f"{'/'.join(path)} imports {target}"


def test_imports_go_one_way():
    assert list(violations(modules())) == []


def test_the_import_check_notices_a_wrong_import():
    """Negative control."""
    assert list(violations([("sparsity", ("sparsity", "x"), ast.parse("from errorfeedback.methods.ef21 import EF21"))]))
    assert list(violations([("problems", ("problems", "x"), ast.parse("def f():\n import errorfeedback.runtime"))]))


def test_every_folder_has_its_place_in_the_order():
    folders = {p.name for p in ROOT.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= set().union(*LAYERS)


def test_each_optional_dependency_is_imported_in_one_folder():
    where = {}
    for part, _, tree in modules():
        for name in imported(tree):
            top = name.split(".")[0]
            if top not in sys.stdlib_module_names | CORE_DEPENDENCIES | {"errorfeedback"}:
                where.setdefault(top, set()).add(part)
    assert all(len(folders) == 1 for folders in where.values()), where


def test_import_is_light():
    """Names are imported when they are used: the libraries that do the work take seconds."""
    heavy = CORE_DEPENDENCIES | {"plotly", "pyarrow", "pandas", "mpi4py", "torch", "jax"}
    program = f"import sys, errorfeedback; print(sorted({{m.split('.')[0] for m in sys.modules}} & {heavy}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_scikit_learn_comes_with_the_estimators_and_not_before():
    """And no kernel is compiled by the import: that waits for the first run."""
    program = """if True:
        import sys, errorfeedback as ef
        ef.solve, ef.EF21
        before = "sklearn" in sys.modules
        from errorfeedback.estimators import EF21Classifier, EF21Regressor
        assert ef.EF21Classifier is EF21Classifier and ef.EF21Regressor is EF21Regressor
        kernels = [v for m in list(sys.modules.values()) if m.__name__.startswith("errorfeedback") for v in vars(m).values()]
        print(before, sum(len(k.signatures) for k in kernels if type(k).__name__ == "CPUDispatcher"))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "0"]
    assert {"EF21Classifier", "EF21PoissonRegressor", "EF21Regressor"} <= set(dir(errorfeedback))


def test_unknown_names_are_attribute_errors():
    assert not hasattr(errorfeedback, "no_such_thing")
    assert {"EF21", "TopK", "RareFeatures", "solve", "ContractiveRandK"} <= set(dir(errorfeedback))
