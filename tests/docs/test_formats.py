"""docs/reference/files.md, followed to the letter: files and frames are read with the standard library and compared with
what was written."""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
from io import BytesIO
from math import ceil, log2

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.clients.order import Setup
from errorfeedback.data.encoding import Columns, Number
from errorfeedback.estimators import model_file
from errorfeedback.wire.requests import Request

MASK = 2**64 - 1
GOLDEN, PRIME = 0x9E3779B97F4A7C15, 0x100000001B3
FORMS = {4: (4, 0), 5: (5, 1), 6: (6, 2), 7: (7, 3), 8: (8, 3), 9: (10, 5), 10: (12, 7), 11: (16, 9)}


def npy(content):
    """An array of an .npy file, as its own header describes it."""
    assert content[:6] == b"\x93NUMPY"
    size = "<H" if content[6] == 1 else "<I"
    start = 8 + struct.calcsize(size)
    length = struct.unpack_from(size, content, 8)[0]
    head = eval(content[start : start + length].decode("latin1"), {"__builtins__": {}})
    return np.frombuffer(content[start + length :], dtype=head["descr"]).reshape(head["shape"])


def npz(content):
    with zipfile.ZipFile(BytesIO(content)) as archive:
        assert {each.compress_type for each in archive.infolist()} == {zipfile.ZIP_STORED}
        return {name.removesuffix(".npy"): npy(archive.read(name)) for name in archive.namelist()}


def test_a_model_file(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 4)), rng.integers(3, size=60)
    X[:, 2] = 0.0  # nobody has it, so its coefficients are 0
    model = ef.EF21Classifier(max_iter=5, tol=0).fit(X, y, groups=np.arange(60) % 5)
    encoding = Columns(tuple(Number(name) for name in "abcd"))
    parts = npz(model_file.save(tmp_path / "model.npz", model, encoding, {"target": "t"}).read_bytes())
    assert list(parts) == ["coef", "places", "intercept", "about", "sha256"]
    digest = hashlib.sha256(b"".join(parts[name].tobytes() for name in ("coef", "places", "intercept", "about")))
    assert parts["sha256"].tobytes() == digest.digest()
    about = json.loads(parts["about"].tobytes())
    assert (about["format"], about["kind"], about["loss"]) == ("errorfeedback model 3", "classifier", "logistic")
    assert (about["classes"], about["shape"]) == ([0, 1, 2], [3, 4])
    assert [column["name"] for column in about["encoding"]["columns"]] == list("abcd")
    assert {"version", "scaling", "provenance"} <= about.keys()
    coef = np.zeros(12)
    coef[parts["places"]] = parts["coef"]
    assert len(parts["coef"]) == 9
    scores = X @ coef.reshape(3, 4).T + parts["intercept"]
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-12)


def tree_of(content):
    """The value of an .ef file; a dataclass is its name and its fields."""
    assert content[:21] == b"errorfeedback file 1\n"
    assert content[21:53] == hashlib.sha256(content[53:]).digest()
    parts = npz(content[53:])
    arrays = [parts[f"arr_{k}"] for k in range(len(parts))]
    return value_of(json.loads(arrays[-1].tobytes()), arrays)


def value_of(tree, arrays):
    if isinstance(tree, list):
        return [value_of(each, arrays) for each in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, held),) = tree.items()
    readers = {
        "array": lambda: arrays[held],
        "scalar": lambda: arrays[held][()],
        "tuple": lambda: tuple(value_of(each, arrays) for each in held),
        "dict": lambda: {value_of(key, arrays): value_of(each, arrays) for key, each in held},
        "csr": lambda: (held[0], *(arrays[k] for k in held[1:])),
        "make": lambda: (held[0], {name: value_of(each, arrays) for name, each in held[1].items()}),
        "enum": lambda: tuple(held),
        **{plain: lambda: held for plain in ("class", "dtype", "path", "objects")},
    }
    return readers[kind]()


def test_a_checkpoint_and_the_history_in_it(tmp_path):
    problem = ef.synthetic(n=6, d=12, m=3, c=3)
    result = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=7, checkpoint=ef.Checkpoint(tmp_path, every=4))
    assert sorted(path.name for path in tmp_path.glob("*.ef")) == [
        *("problem.ef", "round-000000000004.ef", "round-000000000008.ef", "run.ef"),
    ]
    name, fields = tree_of((tmp_path / "problem.ef").read_bytes())
    assert name.endswith(":GLM")
    (_, d), data, _, indptr = fields["A"]
    assert (d, len(data), len(indptr)) == (12, indptr[-1], 19)
    run = tree_of((tmp_path / "run.ef").read_bytes())
    assert run["options"]["method"][1]["compressor"] == ("errorfeedback.compressors.top_k:TopK", {"k": 1})
    last = tree_of((tmp_path / "round-000000000008.ef").read_bytes())
    described = ["identity", "round", "stopped", "state", "stop", "clients", "bits", "rows", "seconds"]
    assert sorted(last) == sorted(described)
    assert last["identity"]["version"] == ef.__version__
    np.testing.assert_array_equal(last["state"]["x"], result.x[problem.columns])
    np.testing.assert_array_equal(last["rows"]["uplink_bits"], result.history["uplink_bits"])


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def check_of(frame, seed, t, client):
    key = mix(mix(mix((seed + GOLDEN) & MASK) ^ ((t + GOLDEN) & MASK)) ^ ((client + GOLDEN) & MASK))
    first = (key ^ frame[0]) * PRIME & MASK
    lanes, body = [(first + k) & MASK for k in range(4)], frame[3:]
    whole = len(body) // 4 * 4
    for k, byte in enumerate(body):
        lane = k % 4 if k < whole else 0
        lanes[lane] = (lanes[lane] ^ byte) * PRIME & MASK
    a, b, c, d = lanes
    return mix(mix(mix(mix(a) ^ b) ^ c) ^ d) >> 48


class Bits:
    """A string of bits from its lowest on."""

    def __init__(self, content):
        self.number, self.at = int.from_bytes(content, "little"), 0

    def take(self, width):
        taken = self.number >> self.at & ((1 << width) - 1)
        self.at += width
        return taken


def float_of(pattern):
    return struct.unpack("<d", struct.pack("<Q", pattern))[0]


def level(k, digits):
    if k < 2**digits:
        return k
    e, f = (k >> digits) - 1, k % 2**digits
    return (2**digits + f) * 2**e


def message_of(sent, start, features, key):
    """(positions, values, where the next frame begins) of one client's frame."""
    version, coding = divmod(sent[start], 16)
    assert version == 3
    at, count, shift = start + 3, 0, 0
    while True:
        count |= (sent[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if sent[at - 1] < 128:
            break
    bits = Bits(sent[at:])
    index = ceil(log2(features)) if count < features else 0
    positions = [bits.take(index) for _ in range(count)] if index else list(range(count))
    if coding in FORMS:
        width, digits = FORMS[coding]
        unit = float_of(bits.take(16) << 47)
        codes = [bits.take(width) for _ in range(count)]
        signs = [-1.0 if code >> width - 1 else 1.0 for code in codes]
        values = [s * level(code % 2 ** (width - 1), digits) * unit for s, code in zip(signs, codes, strict=True)]
    else:
        values = [float_of(bits.take(64)) for _ in range(count)]
    end = at + ceil(bits.at / 8)
    assert struct.unpack_from("<H", sent, start + 1)[0] == check_of(sent[start:end], *key)
    return positions, values, end


@pytest.mark.parametrize("compressor", [ef.TopK(2), ef.PowersOfTwo(4), ef.SmallFloat(4, 3), ef.Identity()], ids=str)
def test_frames_and_the_request_that_asks_for_them(compressor):
    """Round 0 of a run that starts compressed: a client sends C(grad f_i(x^0)), x^0 = 0."""
    problem = ef.synthetic(n=5, d=300, m=8, c=4)  # a client has more than 128 features
    method, support, seed = ef.EF21(compressor, start="compressed"), problem.support, 11
    place = ef.host(problem, Setup(method, ef.Whole(), np.zeros(problem.d), False, None), 0, 5)
    body = struct.pack("<qqBI", 0, seed, 0, 0)
    request = b"round\n" + struct.pack("<QQ", 1, 1) + body
    assert request == Request("round", 1, body, 1).pack()
    answer = place.serve(request)
    assert answer[:1] == b"=", answer
    gradients = problem.gradients_at(np.zeros(problem.width))
    expected = compressor.on(support)(gradients, ef.Round(0, seed)).lifted()
    at, found = 1, np.zeros(support.size)
    for client in range(5):
        positions, values, at = message_of(answer, at, support.sizes[client], (seed, 0, client))
        found[support.indptr[client] + np.array(positions)] = values
    assert at == len(answer)
    np.testing.assert_array_equal(found, expected)
    assert place.serve(request) == answer
    assert place.serve(b"nothing")[:1] == b"!"
