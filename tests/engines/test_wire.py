"""decode(encode(m)) == m for every method x compressor x telemetry; every bit is counted; no bytes crash it; damage is
refused."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from discovery import COMPRESSORS, METHODS, covering
from hypothesis import given, settings
from hypothesis import strategies as st
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.clients.order import Order
from errorfeedback.clients.shard import Shard
from errorfeedback.core import Round
from errorfeedback.downlinks.base import Broadcast, heard
from errorfeedback.probes.base import widths_of
from errorfeedback.probes.errors import Errors
from errorfeedback.probes.losses import Losses
from errorfeedback.probes.sketches import Sketches
from errorfeedback.probes.slopes import Slopes
from errorfeedback.sparsity.support import full_support
from errorfeedback.wire.bits import HEAD, frame_check, get_numbers, put_bits, put_numbers
from errorfeedback.wire.codec import NOTHING_BESIDE, TROUBLES, WireError, decode, decode_losses, encode, encode_losses
from errorfeedback.wire.coding import FULL
from errorfeedback.wire.frames import LOSS_FRAME_BITS, Frames
from errorfeedback.wire.framing import CHECK_WRONG, INDEX_WRONG, PADDING_WRONG, VERSION
from errorfeedback.wire.message import NOWHERE
from errorfeedback.wire.truncated import numbers, patterns

PROBLEM = pair(n=7, d=40, fill=0.3)[0]
SHARD = PROBLEM.shard(2, 7)
DOUBLE = np.dtype(np.float64)
PLAIN = [(), (Slopes(16),), (Slopes(32), Losses(40)), (Losses(64),)]
ERRORS = [(Errors(),), (Errors(), Sketches(3)), (Slopes(21), Losses(33), Errors(), Sketches(2))]


def assert_equal(a, b):
    assert np.array_equal(a.frames.counts, b.frames.counts)
    assert (a.frames.answers is None) == (b.frames.answers is None)
    assert a.frames.answers is None or np.array_equal(a.frames.answers, b.frames.answers)
    assert (a.positions is None) == (b.positions is None)
    assert a.positions is None or np.array_equal(a.positions, b.positions)
    assert a.values.dtype == b.values.dtype or not len(a.values)
    assert a.values.tobytes() == b.values.tobytes()


@pytest.mark.parametrize(("method", "dtype"), covering(METHODS, [np.float64, np.float32]), ids=str)
def test_what_is_encoded_is_decoded_and_costs_what_the_message_says(method, dtype):
    whole = ef.least_squares(PROBLEM.A.toarray(), PROBLEM.target, clients=7, dtype=dtype)
    problem, method = whole.shard(2, 7), method.bind(whole.support).knowing(0.1)
    for probes in PLAIN + ERRORS * isinstance(method, ef.EF21):
        shard = Shard(problem, method, np.empty(problem.support.size, dtype=dtype))
        other = method.compressor.on(problem.support)
        widths = widths_of(probes, 8 * problem.dtype.itemsize)
        for t in range(6):
            x, ctx = np.random.default_rng(t).standard_normal(problem.d).astype(dtype), Round(t, 3)
            message = shard.round(Order(ctx, x, None, probes))
            told = patterns(message.telemetry, widths) if probes else NOTHING_BESIDE
            frames = encode(message, method.known(shard.node.compress, ctx), ctx, told, widths)
            assert 8 * len(frames) == message.frames.cost(int(widths.sum()), 8 * problem.dtype.itemsize).bits
            found, bits = decode(frames, method.known(other, ctx), problem.support, ctx, problem.dtype, widths)
            assert_equal(message, found)
            if probes:
                assert numbers(bits, widths).tobytes() == message.telemetry.tobytes()


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
def test_a_compressor_costs_what_it_announces(compressor):
    """The mean over many rounds is what the planner counts with; where a client sends as much as it takes, the most, which
    numbers that are all alike take."""
    support = PROBLEM.support
    alike, spread = np.ones(support.size), np.random.default_rng(0).standard_normal(support.size)
    operator, u = compressor.on(support), spread if compressor.announces else alike
    bits = [operator(u, Round(t, 0)).frames.cost(0, 64).bits for t in range(400)]
    sure = 0.06 if not compressor.always else 0.02 if isinstance(compressor, ef.PermK) else 1e-12
    assert np.mean(bits) == pytest.approx(compressor.message_bits(support).sum(), rel=sure)


def test_a_frame_byte_by_byte():
    """Two clients with 5 features each, the second in the fourth place: 3 + 1 + ceil((3 + 16)/8) + 8 bytes."""
    support = full_support(2, 5)
    operator, ctx = ef.TopK(1).on(support), Round(7, 1)
    message = operator(np.array([1.0, 0, 0, 0, 0, 0, 0, 0, -4.0, 0]), ctx)
    told = patterns(np.array([[1.0], [-2.0]]), SLOPE)
    frame = encode(message, operator.known(ctx), ctx, told, SLOPE)[15:].tobytes()
    assert len(frame) == 15
    assert frame[0] == 16 * VERSION
    assert frame[HEAD] == 1
    packed = int.from_bytes(frame[4:], "little")
    assert packed & 7 == 3  # the index
    assert packed >> 3 & 0xFFFF == 0xC000  # the leading 16 bits of -2.0
    assert np.array(packed >> 19, dtype=np.uint64).view(np.float64) == -4.0


def test_many_values_have_a_longer_count():
    support = full_support(1, 20_000)
    operator, ctx = ef.TopK(16_384).on(support), Round(0, 0)
    message = operator(np.random.default_rng(0).standard_normal(20_000), ctx)
    frames = encode(message, operator.known(ctx), ctx, NOTHING_BESIDE, NOWHERE)
    assert len(frames) == 3 + 3 + 16_384 * 15 // 8 + 16_384 * 8
    assert_equal(message, decode(frames, operator.known(ctx), support, ctx, DOUBLE)[0])
    for length in (1, 4, 5, 6, 100):
        with pytest.raises(WireError, match="ends in the middle"):
            decode(frames[:length], operator.known(ctx), support, ctx, DOUBLE)


def test_losses_are_framed_too():
    losses, ctx = np.array([0.5, np.pi, np.inf]), Round(9, 2)
    frames = encode_losses(losses, 4, ctx)
    assert 8 * len(frames) == 3 * LOSS_FRAME_BITS
    support = full_support(7, 3).shard(4, 7)
    assert np.array_equal(decode_losses(frames, support, ctx), losses)
    with pytest.raises(WireError, match="client 4 was refused: its checksum"):
        decode_losses(frames, support, Round(8, 2))


ASKED = Round(4, 3)
SLOPE = np.array([16])


def frames_of(compressor, ctx=ASKED):
    operator = compressor.on(SHARD.support)
    message = operator(np.random.default_rng(0).standard_normal(SHARD.support.size), ctx)
    return encode(message, operator.known(ctx), ctx, patterns(np.arange(5.0)[:, None], SLOPE), SLOPE)


def decoded(frames, compressor, ctx=ASKED):
    return decode(frames, compressor.on(SHARD.support).known(ctx), SHARD.support, ctx, DOUBLE, SLOPE)[0]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(COMPRESSORS), st.data())
def test_any_bytes_are_decoded_or_refused(compressor, data):
    """Random bytes, and frames of a real message that were changed in places: never a crash, never a wild position."""
    right = frames_of(compressor).tobytes()
    frames = bytearray(data.draw(st.binary(max_size=200)) if data.draw(st.booleans()) else right)
    for _ in range(data.draw(st.integers(0, 4))):
        if frames:
            frames[data.draw(st.integers(0, len(frames) - 1))] = data.draw(st.integers(0, 255))
    try:
        message = decoded(np.frombuffer(bytes(frames), dtype=np.uint8), compressor)
    except WireError:
        assert bytes(frames) != right
        return
    assert bytes(frames) == right or len(frames) == len(right)  # a check of 16 bits lets one in 65,536 pass
    if message.positions is not None:
        assert np.all(np.diff(message.positions) > 0)
        assert np.all((message.positions >= 0) & (message.positions < SHARD.support.size))


def test_a_changed_byte_is_refused():
    """Every change of every byte; a check of 16 bits lets one in 65,536 pass."""
    frames, passed = frames_of(ef.TopK(2)), 0
    known = ef.TopK(2).on(SHARD.support).known(ASKED)
    for place in range(len(frames)):
        for change in range(1, 256):
            changed = frames.copy()
            changed[place] ^= change
            try:
                decode(changed, known, SHARD.support, ASKED, DOUBLE, SLOPE)
                passed += 1
            except WireError:
                pass
    assert passed <= 3 * 255 * len(frames) / 2**16


@pytest.mark.parametrize("length", range(1, 29))
def test_a_message_that_was_cut_is_refused(length):
    with pytest.raises(WireError, match=r"client [56] was refused: it ends"):
        decoded(frames_of(ef.TopK(2))[:-length], ef.TopK(2))


def test_foreign_messages_are_refused_with_the_reason():
    frames, top = frames_of(ef.TopK(2)), ef.TopK(2)
    for ctx in (Round(5, 3), Round(4, 2)):
        with pytest.raises(WireError, match="client 2 was refused: its checksum does not fit"):
            decoded(frames, top, ctx)
    others = PROBLEM.support.shard(1, 6)
    with pytest.raises(WireError, match="client 1 was refused"):
        decode(frames, top.on(others).known(ASKED), others, ASKED, DOUBLE, SLOPE)
    with pytest.raises(WireError, match="more bytes after the last client's frame"):
        decoded(np.append(frames, np.uint8(0)), top)
    with pytest.raises(WireError, match="its count is not the number of values"):
        decoded(frames, ef.TopK(1))
    with pytest.raises(WireError, match="its values are not in the precision of this run"):
        decode(frames, top.on(SHARD.support).known(ASKED), SHARD.support, ASKED, np.dtype(np.float32), SLOPE)
    newer = frames.copy()
    newer[0] += 16
    with pytest.raises(WireError, match=f"its version is not {VERSION}"):
        decoded(newer, top)


INDICES = Round(4, 3)
"""Nothing is asked for: behind the values come only the zeros that fill the last byte."""


def signed(bits):
    """The frame of one client with 5 features and 2 values, with these bits in the place of indices and padding, and a
    checksum that fits: a sender that is wrong, not a wire."""
    support = full_support(1, 5)
    operator = ef.TopK(2).on(support)
    message = operator(np.array([0, 3.0, 0, 2.0, 0]), INDICES)
    frame = encode(message, operator.known(INDICES), INDICES, NOTHING_BESIDE, NOWHERE)
    frame[HEAD + 1] = frame[HEAD + 1] & 0b11000000 | bits & 0b111111  # the values begin behind the two indices
    frame[-1] |= bits & 0b11000000
    check = frame_check(INDICES.seed, INDICES.t, 0, frame, 0, len(frame))
    frame[1], frame[2] = check & 255, check >> 8
    return decode(frame, operator.known(INDICES), support, INDICES, DOUBLE)[0]


def test_of_all_bits_only_those_of_ascending_positions_and_zeros_are_let_through():
    """Two indices of three bits, and two bits of padding: ten pairs of 25, of which five positions can be chosen."""
    for bits in range(256):
        first, second, padding = bits & 7, (bits >> 3) & 7, bits >> 6
        if first < second < 5 and not padding:
            assert signed(bits).positions.tolist() == [first, second]
            continue
        words = "indices are not ascending positions" if not first < second < 5 else "fill its last byte are not zero"
        with pytest.raises(WireError, match=words):
            signed(bits)


def mutated(frames, rng):
    """One of the things that happen to bytes."""
    where, other = (int(k) for k in rng.integers(0, len(frames), 2))
    lo, hi = sorted((where, other))
    flipped = frames.copy()
    flipped[where] ^= 1 << int(rng.integers(8))
    return [
        lambda: flipped,
        lambda: np.concatenate([frames[:where], rng.integers(0, 256, 1 + hi - lo, dtype=np.uint8), frames[hi:]]),
        lambda: frames[:where],
        lambda: np.concatenate([frames[:lo], frames[hi:]]),
        lambda: np.concatenate([frames[:hi], frames[lo:]]),
        lambda: np.concatenate([frames, frames[where:]]),
        lambda: np.roll(frames, where),
        lambda: rng.integers(0, 256, len(frames), dtype=np.uint8),
        lambda: np.where(rng.random(len(frames)) < 0.1, np.uint8(255), frames),
        lambda: np.zeros(other, dtype=np.uint8),
    ][int(rng.integers(10))]()


def ends(frames):
    """Where the frame of each client ends: where its checksum fits."""
    found = [0]
    for client in range(SHARD.support.first, SHARD.support.first + SHARD.n):
        lo = found[-1]
        stated = int(frames[lo + 1]) | int(frames[lo + 2]) << 8 if len(frames) else 0
        tried = range(lo + HEAD + 1, len(frames) + 1)
        found.append(next((hi for hi in tried if frame_check(ASKED.seed, ASKED.t, client, frames, lo, hi) == stated), lo))
    return found


def signed_again(frames, ends):
    """With checksums that fit, where the frames lie where they should: this gets past the hash."""
    frames = frames.copy()
    for client, (lo, hi) in enumerate(pairwise(ends), SHARD.support.first):
        if lo + HEAD < hi <= len(frames):
            check = frame_check(ASKED.seed, ASKED.t, client, frames, lo, hi)
            frames[lo + 1], frames[lo + 2] = check & 255, check >> 8
    return frames


CHECK_MISSED, *BEHIND_THE_HASH = (TROUBLES[k] for k in (CHECK_WRONG, PADDING_WRONG, INDEX_WRONG))


@pytest.mark.parametrize("sign", [False, True])
def test_ten_thousand_mutations_are_refused_in_words_or_pass_everyframe_check(sign):
    """Half of them as they are, half with new checksums, so that all that stands behind the hash is tried too."""
    rng, passed, words = np.random.default_rng(20), 0, set()
    rights = [(compressor, frames, ends(frames)) for compressor in COMPRESSORS if len(frames := frames_of(compressor))]
    for k in range(5000):
        compressor, right, places = rights[k % len(rights)]
        frames = mutated(right, rng)
        frames = signed_again(frames, places) if sign else frames
        try:
            message = decoded(frames, compressor)
        except WireError as error:
            words.add(str(error))
            continue
        passed += not np.array_equal(frames, right)
        known = compressor.on(SHARD.support).known(ASKED)
        counts = known.frames.counts if known.frames.announced else message.frames.counts
        assert np.array_equal(message.frames.counts, counts)
        assert len(message.values) == counts.sum()
        if message.positions is not None:
            assert np.all(np.diff(message.positions) > 0)
            assert np.all((message.positions >= 0) & (message.positions < SHARD.support.size))
            owners = np.searchsorted(SHARD.support.indptr, message.positions, side="right") - 1
            assert np.array_equal(np.bincount(owners, minlength=SHARD.n), counts)
    assert all(each.startswith("the message of client ") for each in words)
    reasons = {each.split("refused: ")[1] for each in words}
    assert reasons >= set(TROUBLES[1:]) - ({CHECK_MISSED} if sign else {*BEHIND_THE_HASH})
    assert passed > 100 if sign else passed < 5


def test_two_clients_cannot_change_places():
    """Both have the same features and the same message: only the key of the check tells them apart."""
    support = full_support(2, 5)
    operator, ctx = ef.TopK(1).on(support), Round(7, 1)
    frames = encode(operator(np.tile([0.0, 3.0, 0, 0, 0], 2), ctx), operator.known(ctx), ctx, NOTHING_BESIDE, NOWHERE)
    swapped = np.concatenate([frames[13:], frames[:13]])
    assert np.array_equal(frames[3:13], swapped[3:13])
    with pytest.raises(WireError, match="client 0 was refused: its checksum"):
        decode(swapped, operator.known(ctx), support, ctx, DOUBLE)


def test_a_client_without_values_has_a_frame_only_where_it_has_to_tell_something():
    empty = Frames(np.zeros(5, dtype=np.int64), np.zeros(5, dtype=np.int64))
    assert empty.cost(0, 64) == (0, 0, 0)
    assert empty.cost(16, 64) == (5 * 8 * (3 + 1 + 2), 5 * 16, 0)


@pytest.mark.parametrize("features", [[], [0], [3, 7, 9], list(range(40)), None])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_comes_down_is_framed_as_what_goes_up(features, dtype):
    """Every client gets the told features that it owns; how many is on the wire, where the client cannot know it."""
    x, ctx, widths = np.random.default_rng(0).standard_normal(40).astype(dtype), Round(3, 1), np.array([2, 64])
    told = Broadcast(x, None if features is None else np.array(features, dtype=np.int64))
    message, said = told.on(SHARD.support), np.tile(np.array([1, 77], dtype=np.uint64), (5, 1))
    known = ef.Whole().known(SHARD.support, None, FULL) if features is None else None
    frames = encode(message, known, ctx, said, widths)
    assert 8 * len(frames) == told.frames(SHARD.support).cost(66, 8 * x.itemsize).bits
    found, bits = decode(frames, known, SHARD.support, ctx, x.dtype, widths)
    assert np.array_equal(bits, said)
    for i in range(5):
        own = SHARD.support.features(i)
        at = np.arange(len(own)) if found.positions is None else own_positions(found, i)
        got = own[at].tolist()
        wanted = own.tolist() if features is None else sorted(set(own.tolist()) & set(features))
        assert got in (wanted, own.tolist())
    values = heard(found, ())
    assert np.array_equal(values.values[values.features], x[values.features])


def own_positions(message, i):
    lo, hi = message.support.indptr[i], message.support.indptr[i + 1]
    return message.positions[(message.positions >= lo) & (message.positions < hi)] - lo


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=120))
def test_any_bytes_that_come_down_are_decoded_or_refused(sent):
    with pytest.raises(WireError):
        decode(np.frombuffer(sent, dtype=np.uint8), None, SHARD.support, ASKED, DOUBLE, SLOPE)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 64), st.integers(0, 30), st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_many_numbers_are_written_as_one_after_the_other_and_read_again(width, bit, given_numbers):
    """From any bit on, and behind what stands there already."""
    numbers_there = np.array([number >> (64 - width) for number in given_numbers], dtype=np.uint64)
    twin = np.zeros((bit + width * len(numbers_there) + 7) // 8, dtype=np.uint8)
    put_bits(twin, 0, np.uint64(2**bit - 1), bit)
    out, end = twin.copy(), bit
    for number in numbers_there:
        end = put_bits(twin, end, number, width)
    assert put_numbers(out, bit, numbers_there, width) == end
    assert np.array_equal(out, twin)
    found = np.empty_like(numbers_there)
    assert get_numbers(out, bit, width, found) == end
    assert np.array_equal(found, numbers_there)
