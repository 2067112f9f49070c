"""Readers so literal that they can be believed: bytes -> a dense matrix and the labels, in the encoding of `data`."""

from __future__ import annotations

import csv
import io
import zipfile
from datetime import date, datetime

import numpy as np
from pyarrow import parquet

from errorfeedback.data.encoding import Category

NULLS = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL"}
NULLS |= {"NaN", "n/a", "nan", "null"}
"""What pyarrow documents as missing."""


def literal_libsvm(content, data):
    rows, labels, base = [], [], data.encoding.base
    for line in content.split(b"\n"):
        words = line.split(b"#")[0].decode("ascii").split()
        if words:
            labels.append(literal_number(words[0]))
            entries = [word.split(":") for word in words[1:] if not word.startswith("qid:")]
            rows.append({int(index) - base: literal_number(value) for index, value in entries})
    dense = np.zeros((len(rows), data.encoding.width))
    for i, row in enumerate(rows):
        for j, value in row.items():
            assert j >= 0
            if j < data.encoding.width:  # training did not have the others
                dense[i, j] = value
    return dense, labels


def literal_number(word):
    assert set(word) <= set("0123456789+-.eE"), word
    assert np.isfinite(float(word))
    return float(word)


def literal_npz(content, data):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {n.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(archive.read(n))) for n in archive.namelist()}
    rows, columns = parts["shape"].tolist()
    dense = np.zeros((rows, columns))
    form = parts["format"].item().decode()
    if form == "coo":
        for i, j, value in zip(parts["row"].ravel(), parts["col"].ravel(), parts["data"].ravel(), strict=True):
            dense[int(i), int(j)] += value
    else:
        for major in range(len(parts["indptr"]) - 1):
            for k in range(int(parts["indptr"][major]), int(parts["indptr"][major + 1])):
                minor = int(parts["indices"][k])
                assert minor >= 0
                dense[(major, minor) if form == "csr" else (minor, major)] += parts["data"][k]
    if columns == data.encoding.width:
        return dense, []
    return np.delete(dense, data.encoding.target, axis=1), dense[:, data.encoding.target].tolist()


def literal_csv(content, data, separator=","):
    text = content.decode("utf-8").removeprefix("\ufeff")
    separator = separator if separator in text.splitlines()[0] or ";" not in text.splitlines()[0] else ";"
    head, *rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row]
    cells = [[None if cell in NULLS else cell for cell in row] for row in rows]
    return literal_table([dict(zip(head, row, strict=True)) for row in cells], data)


def literal_parquet(content, data):
    return literal_table(parquet.read_table(io.BytesIO(content)).to_pylist(), data)


def literal_table(rows, data):
    known = [row for row in rows if row.get("target", "") is not None]
    labels = [row["target"] for row in known if "target" in row]
    return np.array([literal_features(row, data.encoding) for row in known]), labels


def literal_features(row, encoding):
    found = []
    for column in encoding.columns:
        cell, missing = row[column.name], row[column.name] is None
        if isinstance(column, Category):
            found += [float(not missing and cell == value) for value in column.values]
        elif missing:
            found.append(column.fill if column.origin is None else (column.fill - column.origin) / 365.25)
        else:
            found.append(literal_cell(cell, column.origin))
        found += [float(missing)] if column.marked else []
    return found


def literal_cell(cell, origin):
    if origin is not None:
        moment = cell if isinstance(cell, date) else datetime.fromisoformat(cell.strip())
        moment = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)
        return ((moment - datetime(1970, 1, 1)).total_seconds() / 86400 - origin) / 365.25
    words = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
    text = str(cell).strip()
    return words[text] if text in words else float(int(text, 16)) if text[:2].lower() == "0x" else float(text)


LITERAL = {
    ".svm": literal_libsvm,
    ".npz": literal_npz,
    ".csv": literal_csv,
    ".tsv": lambda content, data: literal_csv(content, data, "\t"),
    ".parquet": literal_parquet,
}
