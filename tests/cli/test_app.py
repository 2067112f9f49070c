"""The command itself: what it costs to ask it something, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pkgutil import iter_modules

import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

import errorfeedback
from errorfeedback.cli import verbs
from errorfeedback.cli.app import app

VERBS = [info.name for info in iter_modules(verbs.__path__) if not info.name.startswith("_")]
HEAVY = {"numpy", "numba", "llvmlite", "scipy", "sklearn", "matplotlib", "plotly", "pyarrow", "pandas", "mpi4py"}

ASK = """if True:
    import json, sys
    from typer.testing import CliRunner
    from errorfeedback.cli.app import app
    done = {}
    for words in json.loads(sys.argv[1]):
        result = CliRunner().invoke(app(), words)
        done[" ".join(words)] = [result.exit_code, [m for m in sys.modules if "." not in m]]
    print(json.dumps(done))
"""


def asked(*questions: list[str]) -> dict[str, tuple[int, list[str]]]:
    """For every command line in turn: its exit code, and which packages have been imported by then."""
    command = [sys.executable, "-c", ASK, json.dumps(questions)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {words: (code, new) for words, (code, new) in json.loads(done.stdout).items()}


def test_help_a_wrong_option_and_the_version_import_none_of_the_libraries_that_do_the_work():
    """They take seconds, and are imported by the verb when it is called."""
    told = asked(["--help"], ["--version"], *([verb, "--help"] for verb in VERBS), *([verb, "--wrong"] for verb in VERBS))
    assert len(told) == 2 + 2 * len(VERBS)
    for words, (code, new) in told.items():
        assert code == (2 if words.endswith("--wrong") else 0), words
        assert not HEAVY & set(new), words


def test_a_verb_that_is_called_imports_what_it_needs():
    """Negative control: the check above sees an import."""
    (_, new), *_ = asked(["evaluate", "nowhere", "nothing"]).values()
    assert {"numpy", "sklearn"} <= set(new)


def test_help_names_every_verb_and_says_what_it_does():
    text = " ".join(CliRunner().invoke(app(), ["--help"], env={"COLUMNS": "200"}).output.split())
    assert {"train", "inspect", "compare", "reproduce"} <= set(VERBS)
    for verb in VERBS:
        assert f" {verb} " in text
    assert "How good a trained model is on data with known targets." in text


def test_version():
    assert CliRunner().invoke(app(), ["--version"]).output == f"errorfeedback {errorfeedback.__version__}\n"


STRUCK = """if True:
    import os, signal, sys
    event, word = sys.argv[1].split(":")
    def strike(name, args):
        if name == event and word in str(args[0]):
            os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.addaudithook(strike)
    sys.argv[1:] = sys.argv[2:]
    from errorfeedback.__main__ import main
    main()
"""
MOMENTS = {
    "typer is imported": "import:typer.core",
    "numba is imported": "import:numba.core.types",
    "scikit-learn is imported": "import:sklearn.utils.validation",
    "the data is read": "open:tiny.svm",
    "a kernel is compiled": "open:.nbi",
}


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_is_a_sentence_and_exit_code_130(moment, tmp_path):
    """Struck at a moment that Python's audit events name."""
    (tmp_path / "tiny.svm").write_text("1 1:1 2:1\n0 2:1\n1 1:1\n0 2:1 3:1\n")
    words = ["train", "tiny.svm", "--clients", "2", "--rounds", "5", "--out", "run"]
    command = [sys.executable, "-c", STRUCK, MOMENTS[moment], *words]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 130, done.stderr
    assert "Interrupted: the command has not finished." in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_ctrl_c_while_the_words_are_read_is_the_same_sentence(monkeypatch):
    def struck(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(TyperGroup, "parse_args", struck)
    done = CliRunner().invoke(app(), ["train", "a9a"])
    assert done.exit_code == 130
    assert "Interrupted: the command has not finished." in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("pressed", [True, False])
def test_an_error_that_a_library_makes_of_ctrl_c_is_no_traceback_and_others_are(pressed):
    """Struck inside its callbacks, numba's compiler says "no compiled object yet"."""
    program = f"""if True:
        import os, signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)
        import errorfeedback.cli.app
        from errorfeedback.__main__ import main
        def broken():
            try:
                if {pressed}:
                    os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                pass
            raise RuntimeError("no compiled object yet")
        errorfeedback.cli.app.app = broken
        main()
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == (130 if pressed else 1)
    assert ("Interrupted: the command has not finished." in done.stderr) == pressed
    assert ("Traceback" in done.stderr) != pressed
