"""A run that stops and goes on is bit-identical to one that never stopped: every method, engine and number of shards."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass

import numpy as np
import pytest
from discovery import METHODS
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.clients import memory
from errorfeedback.storage import checkpoint
from errorfeedback.storage.checkpoint import Folder
from errorfeedback.storage.packing import fingerprint, pack, unpack

ROUNDS = 40
ENGINES = [ef.Local(1), ef.Local(3), ef.Threads(2)]


@pytest.fixture
def problem():
    return pair("logistic", n=7, d=15, fill=0.2)[0]


def run(problem, method, rule=None, **options):
    x0 = np.random.default_rng(1).standard_normal(problem.width)
    given = {"rounds": ROUNDS, "x0": x0, "seed": 3, "every": 7, **options}
    return ef.solve(problem, method, ef.Constant(0.01) if rule is None else rule, **given)


class StopError(Exception):
    pass


def stop_at(t):
    def watch(row):
        if row["round"] >= t:
            raise StopError

    return watch


def broken_off(folder, problem, method, rule=None, *, at=28, every=5, **options):
    with pytest.raises(StopError):
        run(problem, method, rule, checkpoint=ef.Checkpoint(folder, every=every), watch=stop_at(at), **options)
    return folder


def assert_same_bits(a, b):
    assert np.array_equal(a.x, b.x)
    assert a.stopped == b.stopped
    assert a.certificate == b.certificate or a.certificate.verdict == b.certificate.verdict
    assert a.history.notes == b.history.notes
    for column in a.history.keys() - {"seconds"}:
        assert np.array_equal(a.history[column], b.history[column], equal_nan=True), column


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_resumed_run_is_bit_identical_on_every_engine(method, problem, tmp_path):
    whole = run(problem, method)
    broken_off(tmp_path / "run", problem, method, engine=ef.Local(2))
    for k, engine in enumerate(ENGINES):
        shutil.copytree(tmp_path / "run", tmp_path / str(k))
        assert_same_bits(whole, ef.resume(tmp_path / str(k), engine=engine))


@pytest.mark.parametrize("rule", [ef.Adaptive(), ef.Adaptive(sketch=4), ef.Best(), ef.RareFeatures()], ids=repr)
def test_rules_resume_with_their_memory(rule, problem, tmp_path):
    whole = run(problem, ef.EF21(ef.TopK(1)), rule)
    assert_same_bits(whole, ef.resume(broken_off(tmp_path, problem, ef.EF21(ef.TopK(1)), rule, engine=ef.Threads(3))))


def test_stopping_rules_resume_with_their_memory(problem, tmp_path):
    """Thirty rounds in a row, of which the resumed run sees the last few."""
    stop = [ef.GradientMapping(1e9, patience=30)]
    whole = run(problem, ef.EF21(ef.TopK(1)), stop=stop)
    assert 28 < whole.rounds < 35
    assert_same_bits(whole, ef.resume(broken_off(tmp_path, problem, ef.EF21(ef.TopK(1)), stop=stop)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", ["least_squares", "autoencoder"])
def test_every_kind_of_problem_is_rebuilt_from_the_folder(make, dtype, tmp_path):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((21, 4))
    problems = {
        "least_squares": lambda: ef.least_squares(
            A, A[:, 0], np.repeat(["x", "y", "z"], 7), dtype=dtype, regularizer=ef.NonconvexPenalty(0.1), intercept=True
        ),
        "autoencoder": lambda: ef.autoencoder(A, clients=7, code=2),
    }
    problem = problems[make]()
    whole = run(problem, ef.EF21(ef.TopK(2)))
    assert_same_bits(whole, ef.resume(broken_off(tmp_path, problem, ef.EF21(ef.TopK(2)))))


@pytest.mark.parametrize("method", {type(method): method for method in METHODS}.values(), ids=str)
def test_a_run_that_is_made_longer_is_bit_identical_to_one_in_one_go(method, problem, tmp_path):
    """Round 26 was the last one and recorded as such; now it is one among others, and is not."""
    kept = ef.Extendable(tmp_path / "states" / "run.ef")
    assert 26 in run(problem, method, rounds=26, checkpoint=kept, engine=ef.Local(2)).history["round"]
    rows = []
    assert_same_bits(run(problem, method), run(problem, method, checkpoint=kept, watch=rows.append))
    assert [row["round"] for row in rows] == [28, 35, 40]


@pytest.mark.parametrize("rule", [ef.Automatic(), ef.Armijo()], ids=repr)
def test_what_the_end_costs_is_billed_at_the_new_end_alone(rule, problem, tmp_path):
    """A rule that keeps its best point compares it with the last one, which takes an exchange."""
    method, kept = ef.EF21(ef.TopK(1)) if rule == ef.Automatic() else ef.DGD(), ef.Extendable(tmp_path / "run.ef")
    for rounds in (17, 17, 26, 40):
        longer = run(problem, method, rule, rounds=rounds, checkpoint=kept)
    assert_same_bits(run(problem, method, rule), longer)


def test_what_is_kept_of_another_run_is_refused_and_what_is_damaged_or_longer_is_not_used(problem, tmp_path, caplog):
    kept, method = ef.Extendable(tmp_path / "run.ef"), ef.EF21(ef.TopK(1))
    whole = run(problem, method, checkpoint=kept)
    with pytest.raises(ValueError, match=r"another run: seed is 3 there and 4 here"):
        run(problem, method, checkpoint=kept, seed=4)
    rows = []
    assert_same_bits(run(problem, method, rounds=20), run(problem, method, rounds=20, checkpoint=kept, watch=rows.append))
    assert rows[0]["round"] == 0
    kept.file.write_bytes(kept.file.read_bytes()[:-9])
    assert_same_bits(whole, run(problem, method, checkpoint=kept))
    assert "run.ef is damaged" in caplog.text
    assert "begins at round 0" in caplog.text


def test_a_state_that_cannot_be_kept_does_not_end_the_run(problem, tmp_path, caplog):
    (tmp_path / "file").write_text("a file where the folder should be")
    assert_same_bits(run(problem, ef.DGD()), run(problem, ef.DGD(), checkpoint=ef.Extendable(tmp_path / "file" / "run.ef")))
    assert "the state of the run was not kept" in caplog.text


def test_a_memory_that_is_lost_is_noticed(problem, tmp_path, monkeypatch):
    """Negative control: without the clients' memory the resumed run differs."""
    whole = run(problem, ef.EF21(ef.TopK(1)))
    broken_off(tmp_path, problem, ef.EF21(ef.TopK(1)))
    real = memory.map_memory

    def lost(leaf, *trees, **options):
        return real(lambda *leaves: np.zeros_like(leaf(*leaves)), *trees, **options)

    monkeypatch.setattr(memory, "map_memory", lost)
    assert not np.array_equal(whole.x, ef.resume(tmp_path).x)


def test_the_last_two_are_kept_and_no_temporary_file(problem, tmp_path):
    run(problem, ef.DGD(), checkpoint=ef.Checkpoint(tmp_path, every=5))
    assert [p.name for p in Folder(tmp_path).rounds()] == ["round-000000000041.ef", "round-000000000040.ef"]
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith("round")) == ["lock", "problem.ef", "run.ef"]


def test_a_finished_run_is_returned_as_it_is(problem, tmp_path):
    whole = run(problem, ef.EF21(ef.TopK(1)), checkpoint=ef.Checkpoint(tmp_path, every=5))
    again = ef.resume(tmp_path)
    assert_same_bits(whole, again)
    assert np.array_equal(whole.history["seconds"], again.history["seconds"])


def test_a_run_without_a_checkpoint_yet_starts_from_round_0(problem, tmp_path, caplog):
    whole = run(problem, ef.EF21(ef.TopK(1)))
    assert_same_bits(whole, ef.resume(broken_off(tmp_path, problem, ef.EF21(ef.TopK(1)), every=1000)))
    assert "starting from round 0" in caplog.text


def test_seconds_go_on_where_they_were(problem, tmp_path):
    broken_off(tmp_path, problem, ef.DGD())
    before = Folder(tmp_path).rounds()[0]
    assert before.name == "round-000000000025.ef"
    seconds = ef.resume(tmp_path).history["seconds"]
    assert np.all(np.diff(seconds) > 0)


def test_every_so_many_seconds(problem, tmp_path):
    broken_off(tmp_path / "often", problem, ef.DGD(), every=None)
    with pytest.raises(StopError):
        run(problem, ef.DGD(), checkpoint=ef.Checkpoint(tmp_path / "rarely", seconds=1e6), watch=stop_at(28))
    with pytest.raises(StopError):
        run(problem, ef.DGD(), checkpoint=ef.Checkpoint(tmp_path / "always", seconds=1e-9), watch=stop_at(28))
    assert not Folder(tmp_path / "rarely").rounds()
    assert Folder(tmp_path / "always").rounds()[0].name == "round-000000000028.ef"


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before_and_says_so(damage, problem, tmp_path, caplog):
    whole = run(problem, ef.EF21(ef.TopK(1)))
    newest = Folder(broken_off(tmp_path, problem, ef.EF21(ef.TopK(1)))).rounds()[0]
    found = newest.read_bytes()
    flipped = bytearray(found)
    flipped[len(found) // 2] ^= 4
    newest.write_bytes({"cut": found[:-9], "flip": bytes(flipped), "empty": b"", "foreign": b"PK\3\4" + found}[damage])
    assert_same_bits(whole, ef.resume(tmp_path))
    assert newest.name in caplog.text
    assert "going back to the checkpoint before it" in caplog.text


def test_other_data_methods_and_versions_are_refused_with_what_differs(problem, tmp_path, monkeypatch):
    broken_off(tmp_path / "a", problem, ef.EF21(ef.TopK(1)))
    broken_off(tmp_path / "b", problem, ef.EF21(ef.TopK(2)))
    other = pair("logistic", n=7, d=15, fill=0.2, seed=1)[0]
    with pytest.raises(ValueError, match=r"another run: data is \w+ there and \w+ here"):
        ef.resume(tmp_path / "a", problem=other)
    for path in Folder(tmp_path / "b").rounds():
        shutil.copy(path, tmp_path / "a" / path.name)
    with pytest.raises(ValueError, match=r"method is EF21\(compressor=TopK\(k=2\).* there and EF21\(compressor=TopK\(k=1\)"):
        ef.resume(tmp_path / "a")
    version = re.escape(ef.__version__)
    monkeypatch.setattr(ef, "__version__", "9.9")
    with pytest.raises(ValueError, match=rf"version is {version} there and 9\.9 here"):
        ef.resume(tmp_path / "b")


def test_a_folder_with_a_run_is_not_written_over(problem, tmp_path):
    broken_off(tmp_path, problem, ef.DGD())
    with pytest.raises(ValueError, match="already holds a run"):
        run(problem, ef.DGD(), checkpoint=ef.Checkpoint(tmp_path))
    with pytest.raises(ValueError, match="holds no run"):
        ef.resume(tmp_path / "elsewhere")


@pytest.mark.parametrize("place", ["file", "file/run", "sealed/run"])
def test_a_folder_that_cannot_be_written_is_refused_before_any_work(place, problem, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("a file where the folder should be")
    (tmp_path / "sealed").mkdir()
    if place.startswith("sealed"):  # root may write everywhere
        monkeypatch.setattr("pathlib.Path.mkdir", no_room)
    seen = []
    with pytest.raises(OSError, match=f"no checkpoint can be written to .*{place} .*choose another folder, or leave out"):
        run(problem, ef.DGD(), checkpoint=ef.Checkpoint(tmp_path / place, every=10), watch=seen.append)
    assert not seen


def no_room(*_, **__):
    raise OSError("No space left on device")


@pytest.mark.parametrize("broken", [1, 2])
def test_a_description_that_cannot_be_written_is_refused_and_the_folder_can_be_used_again(
    broken, problem, tmp_path, monkeypatch
):
    """Of the data, or of the run: without both no checkpoint could ever be gone on with."""
    calls, real = [], checkpoint.write

    def write(path, value):
        calls.append(path)
        return no_room() if len(calls) == broken else real(path, value)

    with monkeypatch.context() as disk:
        disk.setattr(checkpoint, "write", write)
        with pytest.raises(OSError, match="no checkpoint can be written"):
            run(problem, ef.DGD(), checkpoint=ef.Checkpoint(tmp_path, every=10))
    assert not Folder(tmp_path).rounds()
    whole = run(problem, ef.DGD(), checkpoint=ef.Checkpoint(tmp_path, every=10))
    assert_same_bits(whole, ef.resume(tmp_path))


def test_trouble_with_the_disk_later_on_is_reported_and_training_goes_on(problem, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(Folder, "save", no_room)
    result = run(problem, ef.DGD(), checkpoint=ef.Checkpoint(tmp_path, every=10))
    assert_same_bits(run(problem, ef.DGD()), result)
    assert caplog.text.count("training goes on") == 5


def test_checkpoints_without_their_run_are_not_said_to_be_resumable(problem, tmp_path):
    broken_off(tmp_path, problem, ef.DGD())
    Folder(tmp_path).run.unlink()
    with pytest.raises(ValueError, match=r"cannot go on, for there is no run\.ef; choose another folder"):
        run(problem, ef.DGD(), checkpoint=ef.Checkpoint(tmp_path))


@pytest.mark.parametrize("options", [{"every": 0}, {"every": 1.5}, {"seconds": 0}, {"every": 1, "seconds": 1.0}], ids=str)
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match=r"(every|seconds) = "):
        ef.Checkpoint("run", **options)


def test_packing_keeps_every_bit_and_shares_what_is_shared():
    a = np.array([1.5, np.nan, -0.0])
    value = {"a": a, "b": (a, [None, True, 2, "x"]), "s": np.float32(0.1), "o": np.array(["x", 2], dtype=object)}
    tree, arrays = pack(value)
    assert len(arrays) == 2
    back = unpack(tree, arrays)
    assert back["a"].tobytes() == a.tobytes()
    assert back["b"][1] == [None, True, 2, "x"]
    assert back["s"].dtype == np.float32
    assert back["o"].tolist() == ["x", 2]
    assert fingerprint(value) == fingerprint(back) != fingerprint({**value, "s": np.float32(0.2)})


def test_only_this_packages_dataclasses_are_made():
    for name in ("os:system", "errorfeedback.storage.packing:import_module", "errorfeedback.keyed:mix"):
        with pytest.raises(ValueError, match="is not a class"):
            unpack({"make": [name, {}]}, [])
    with pytest.raises(TypeError, match="a checkpoint cannot hold"):
        pack(object())


@ef.storable
@dataclass(frozen=True)
class Kept:
    """A client memory with all that one may be made of."""

    g: np.ndarray
    counts: np.ndarray
    """(n, 2)"""
    common: ef.Shared
    """Of the shape that the method likes."""


@ef.storable
@dataclass(frozen=True)
class Averaging(ef.EF21):
    """EF21 whose clients count their rounds, and remember in common the last three round numbers twice."""

    def init(self, node, ctx):
        message, g = super().init(node, ctx)
        return message, Kept(g, np.zeros((node.support.n, 2)), ef.Shared(np.zeros((3, 2))))

    def client(self, state, node, ctx):
        message, g = super().client(state.g, node, ctx)
        g *= 1 + 1e-3 * state.common.value.sum() / (1 + ctx.t)  # so that the memory counts
        common = ef.Shared(np.vstack([state.common.value[1:], [[ctx.t, ctx.t]]]))
        return message, Kept(g, np.add(state.counts, [1.0, ctx.t]), common)

    def error(self, state, grads):
        return state.g - grads


def test_a_memory_may_be_a_dataclass_with_entries_of_any_shape_and_what_all_shards_share(problem, tmp_path):
    method = Averaging(ef.TopK(1))
    whole = run(problem, method)
    broken_off(tmp_path / "run", problem, method, engine=ef.Local(2))
    for k, engine in enumerate(ENGINES):
        shutil.copytree(tmp_path / "run", tmp_path / str(k))
        assert_same_bits(whole, ef.resume(tmp_path / str(k), engine=engine))


@pytest.mark.parametrize("stop_at", [3, 17, 40])
def test_the_automatic_step_resumes_bit_for_bit(tmp_path, stop_at):
    """Its memory is on both sides: the kept point and slopes of the clients, the guard and the last move of the server."""
    problem = pair("logistic", n=7, d=15, fill=0.3)[0]
    options = {"rounds": 60, "every": 5, "prox": ef.ElasticNet(l1=0.01, l2=0.1), "x0": np.ones(15)}
    whole = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Automatic(), **options)

    class StoppedError(Exception):
        pass

    def watch(row):
        if row["round"] >= stop_at:
            raise StoppedError

    with pytest.raises(StoppedError):
        ef.solve(
            problem,
            ef.EF21(ef.TopK(1)),
            ef.Automatic(),
            **options,
            watch=watch,
            checkpoint=ef.Checkpoint(tmp_path, every=1),
        )
    again = ef.resume(tmp_path, engine=ef.Local(3))
    assert np.array_equal(whole.x, again.x)
    for column in whole.history.keys() - {"seconds"}:
        assert np.array_equal(whole.history[column], again.history[column], equal_nan=True), column


def test_an_error_of_the_user_while_a_run_goes_on_is_not_a_damaged_state(tmp_path):
    problem = pair(n=5, d=12)[0]
    ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Constant(0.01), rounds=3, checkpoint=ef.Checkpoint(tmp_path, every=1))
    (tmp_path / "round-000000000004.ef").unlink()

    def watch(row):
        raise KeyError("of the user")

    with pytest.raises(KeyError, match="of the user"):
        ef.resume(tmp_path, watch=watch)
