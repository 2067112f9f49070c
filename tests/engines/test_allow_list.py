"""Who may bring whom: a node speaks for its own clients, by name, and for nobody else's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from dealt_rows import Here
from own_places import part, rows

import errorfeedback as ef
from errorfeedback.engines.allow_list import AllowList, NotAdmittedError


@dataclass(eq=False)
class Guarded(Here):
    """Places of this process, behind a list."""

    nodes: dict | None = None

    def admit(self, clients):
        AllowList(self.nodes).admit(clients)

    def name(self, host):
        return list(self.nodes)[host]


def called(lo, hi, names):
    """The same clients under other names."""
    A, b, clients = rows()
    mine = (lo <= clients) & (clients < hi)
    return ef.OwnRows(ef.least_squares(A[mine], b[mine], np.asarray(names)[clients[mine] - lo]))


ALLOWED = {"clinic": ["anna", "berta"], "laboratory": ["lab-*"]}


def brought(clinic, laboratory, allowed=ALLOWED):
    return Guarded([called(0, len(clinic), clinic), called(5, 5 + len(laboratory), laboratory)], nodes=allowed)


def test_who_is_on_the_list_is_admitted_in_the_order_of_the_nodes():
    transport = brought(["anna", "berta"], ["lab-1", "lab-2", "lab-3"])
    problem, _ = ef.gathered(transport, 2)
    assert problem.cuts == [0, 2, 5]
    assert [place.speaker.reason for place in transport.places] == ["", ""]


@pytest.mark.parametrize(
    ("clinic", "laboratory", "reason"),
    [
        (["anna", "carl"], ["lab-1"], "clinic brings client carl, and it may bring anna, berta alone"),
        (["anna", "lab-1"], ["lab-1"], "clinic brings client lab-1, and it may bring anna, berta alone"),
        (["anna", "berta"], ["lab-1", "anna"], "laboratory brings client anna, and it may bring lab-. alone"),
        (["anna"], ["lab-1"], "clinic does not bring client berta; let it, or take it off the list"),
    ],
    ids=str,
)
def test_who_is_not_on_the_list_is_refused_by_name_and_the_others_do_not_hear_it(clinic, laboratory, reason):
    transport = brought(clinic, laboratory)
    with pytest.raises(NotAdmittedError, match=reason):
        ef.gathered(transport, 2)
    for place in transport.places:
        assert place.speaker.reason == "the server does not admit all clients that were brought"
        assert place.host is None


def test_a_client_is_one_nodes():
    both = {"clinic": ["a*"], "laboratory": ["*"]}
    with pytest.raises(NotAdmittedError, match="client anna is brought by clinic and by laboratory; a client comes once"):
        ef.gathered(brought(["anna", "arno"], ["lab-1", "anna"], both), 2)
    with pytest.raises(ValueError, match="client anna may be brought by clinic and by laboratory"):
        AllowList({"clinic": ["anna"], "laboratory": ["lab", "anna"]})
    with pytest.raises(ValueError, match="of clinic the clients are counted, and of other nodes they are named"):
        AllowList({"clinic": range(2), "laboratory": ["anna"]})


def test_who_is_counted_has_the_next_places_whatever_it_is_called():
    counted = {"clinic": range(0, 2), "laboratory": range(2, 3)}
    problem, _ = ef.gathered(brought(["x", "y"], ["x"], counted), 2)
    assert problem.cuts == [0, 2, 3]
    with pytest.raises(NotAdmittedError, match="laboratory speaks for 2 clients; it may for 1"):
        ef.gathered(brought(["x", "y"], ["u", "v"], counted), 2)


def test_a_place_that_names_more_clients_than_it_has_is_refused():
    class Liar(ef.OwnRows):
        def introduction(self):
            said = super().introduction()
            said.names.append("another")
            return said

    transport = Guarded([ef.OwnRows(part(0, 2)), Liar(part(2, 6))], nodes={"a": range(2), "b": range(5)})
    with pytest.raises(ValueError, match="of clients, a 2, b 5 are named, and the problem has 6"):
        ef.gathered(transport, 2)
