"""From the objects of queues to what each of them lets pods land on."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.queues import GPU, flavor, groups, kueue, local, queue, read, volcano
from tests.samples import Json
from webhook.fleet.queues import behind, read_queues, with_queues
from webhook.model.fleet import Taint
from webhook.model.placement import Operator, Requirement, Toleration
from webhook.model.queues import Queue, Queues

LQ = ("Kueue", "team-a", "lq")


def quota(queues: Queues, of: str = "lq", name: str = "a") -> int | None:
    found = {one.name: one for one in queues.known["Kueue", "team-a", of].flavors}[name].quota
    assert found is not None
    return found[GPU]


def test_a_local_queue_has_the_flavors_of_its_cluster_queue_in_their_order() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    tolerates = {"key": "gpu", "operator": "Exists"}
    objects = (flavor("b", {"k": "b"}, nodeTaints=[taint], tolerations=[tolerates]), flavor("a", {"k": "a"}))
    found = read(*objects, queue({"b": 8, "a": 4}), local()).known[LQ]
    assert [(one.name, dict(one.labels)) for one in found.flavors] == [("b", {"k": "b"}), ("a", {"k": "a"})]
    assert found.flavors[0].taints == (Taint("gpu", "yes", "NoSchedule"),)
    assert found.flavors[0].tolerations == (Toleration("gpu", "Exists"),)
    assert (found.flavors[0].quota, found.missing) == ({GPU: 8}, ())


def test_the_order_of_objects_does_not_matter() -> None:
    objects = [flavor("a"), queue({"a": 8}, cohortName="c"), local(), queue({"a": 4}, "other", cohortName="c")]
    assert read(*objects).known == read(*reversed(objects)).known


def test_cpus_count_in_thousandths() -> None:
    cluster_queue = kueue("ClusterQueue", "cq", resourceGroups=groups({"a": {"nominalQuota": "1500m"}}, "cpu"))
    assert read(flavor("a"), cluster_queue, local()).known[LQ].flavors[0].quota == {"cpu": 1500}


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_cohort_is_named_by_either_version(version: str) -> None:
    field = "cohort" if version == "v1beta1" else "cohortName"
    of = groups({"a": 8})
    mine = kueue("ClusterQueue", "cq", version=version, resourceGroups=of, **{field: "c"})
    other = kueue("ClusterQueue", "other", version=version, resourceGroups=of, **{field: "c"})
    assert quota(read(flavor("a"), mine, other, local())) == 16


@pytest.mark.parametrize(
    ("mine", "others", "most"),
    [
        ({"nominalQuota": 8}, {"nominalQuota": 8}, 16),
        ({"nominalQuota": 8, "borrowingLimit": 3}, {"nominalQuota": 8}, 11),
        ({"nominalQuota": 8, "borrowingLimit": 0}, {"nominalQuota": 8}, 8),
        ({"nominalQuota": 8}, {"nominalQuota": 8, "lendingLimit": 2}, 10),
        # What it does not lend is its own to use all the same.
        ({"nominalQuota": 8, "lendingLimit": 0}, {"nominalQuota": 4}, 12),
        ({"nominalQuota": 0, "borrowingLimit": 5}, {"nominalQuota": 4}, 4),
    ],
)
def test_what_can_be_borrowed_is_bounded_by_both_limits(mine: Json, others: Json, most: int) -> None:
    mine_and_others = (queue({"a": mine}, cohortName="c"), queue({"a": others}, "other", cohortName="c"))
    assert quota(read(flavor("a"), *mine_and_others, local())) == most


def test_a_cohort_has_quota_of_its_own_and_borrows_from_its_parent() -> None:
    objects = (
        flavor("a"),
        queue({"a": 1}, cohortName="child"),
        kueue(
            "Cohort", "child", parentName="root", resourceGroups=groups({"a": {"nominalQuota": 2, "borrowingLimit": 5}})
        ),
        queue({"a": 100}, "rich", cohortName="root"),
        local(),
    )
    assert quota(read(*objects)) == 1 + 2 + 5
    # A parent that is no object is one without quota or limits.
    assert quota(read(flavor("a"), queue({"a": 1}, cohortName="none"), local())) == 1


def test_cohorts_that_are_each_others_parents_bound_nothing() -> None:
    cycle = (kueue("Cohort", "c", parentName="d"), kueue("Cohort", "d", parentName="c"))
    assert quota(read(flavor("a"), queue({"a": 8}, cohortName="c"), *cycle, local())) is None


def test_a_flavor_that_is_not_in_view_is_missed_and_the_others_count() -> None:
    found = read(flavor("a"), queue({"a": 8, "gone": 8}), local()).known[LQ]
    assert ([one.name for one in found.flavors], found.missing) == (["a"], ("ResourceFlavor gone",))


def test_a_malformed_object_costs_itself_and_the_bounds_of_cohorts() -> None:
    bad = queue({"a": {"nominalQuota": "a few"}}, "bad", cohortName="c")
    objects = [
        flavor("a"),
        queue({"a": 8}, cohortName="c"),
        queue({"a": 8}, "alone"),
        local(),
        local("alone", "other"),
        bad,
    ]
    found = read_queues((one["metadata"]["name"], one) for one in objects)
    assert [place for place, _ in found.faults] == ["bad"]
    assert "nominalQuota" in found.faults[0][1]
    assert quota(found.queues) is None
    assert quota(found.queues, "other") == 8


def test_a_local_queue_without_its_cluster_queue_is_not_in_view() -> None:
    assert LQ not in read(flavor("a"), local()).known


def test_a_local_queue_that_comes_later_has_the_flavors_of_its_cluster_queue() -> None:
    before = read(flavor("a"), flavor("b"), queue({"a": 8}))
    assert with_queues(before, [local()]).known[LQ] == read(flavor("a"), queue({"a": 8}), local()).known[LQ]
    assert LQ not in before.known


def test_a_local_queue_that_comes_before_its_cluster_queue_may_have_any_flavor_and_says_what_is_missing() -> None:
    known = with_queues(read(flavor("a"), queue({"a": 8})), [local("later")]).known[LQ]
    assert ([one.name for one in known.flavors], known.missing) == (["a"], ("ClusterQueue later",))


@pytest.mark.parametrize("own", [{}, {"kind": "LocalQueue"}, {**local(), "spec": 7}, {**flavor("b"), "spec": 7}])
def test_what_comes_later_and_cannot_be_read_is_left_out(own: Json) -> None:
    before = read(flavor("a"))
    assert with_queues(before, [own]) == before
    assert [*behind(before, [own])] == []


def test_a_cluster_queue_and_a_flavor_that_come_later_are_as_if_they_had_been_there() -> None:
    late = [local(), queue({"b": 8, "a": 4}), flavor("b", {"gpu": "b"})]
    assert with_queues(read(flavor("a")), late).known[LQ] == read(flavor("a"), *late).known[LQ]
    # A flavor is of those that a queue which is nowhere may have, too.
    assert [one.name for one in with_queues(read(flavor("b")), [flavor("a")]).flavors] == ["a", "b"]


def test_what_a_cluster_queue_that_comes_later_can_borrow_is_not_bounded() -> None:
    before = read(flavor("a"), queue({"a": 8}, "other", cohortName="c"))
    assert quota(with_queues(before, [local(), queue({"a": 8}, cohortName="c")])) is None
    assert quota(with_queues(before, [local("other")])) == 8


def test_behind_queues_is_what_they_stand_for_and_is_not_there_whole() -> None:
    def names(queues: Queues, *objects: Json) -> list[str]:
        return [f"{one.kind.kind} {one.name}" for one in behind(queues, objects)]

    before = read(flavor("a"), queue({"a": 8}, "whole"), queue({"a": 8, "gone": 8}, "in-part"))
    assert names(before, local("whole")) == []
    assert names(before, local("in-part"), local("none", "other")) == ["ClusterQueue in-part", "ClusterQueue none"]
    assert names(before, queue({"a": 8, "gone": 8}), flavor("b")) == ["ResourceFlavor gone"]


def test_a_volcano_queue_names_nodes_by_the_label_of_its_plugin() -> None:
    known = read(volcano("q", to=["x", "y"], against=["z"]), volcano("anywhere")).known
    key = "volcano.sh/nodegroup-name"
    assert known["Volcano", "", "q"] == Queue(
        nodes=(Requirement(key, Operator.IN, ("x", "y")), Requirement(key, Operator.NOT_IN, ("z",)))
    )
    assert known["Volcano", "", "anywhere"] == Queue()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


def _places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:  # noqa: ANN401 - JSON
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, one in inner for place in _places(one, (*at, key)))]


@given(st.data())
def test_whatever_stands_anywhere_in_an_object_the_others_are_read(data: st.DataObject) -> None:
    good = [flavor("good", {"k": "v"}), queue({"good": 8}, "fine"), local("fine", "mine")]
    bad = [
        flavor(
            "a", {"k": "a"}, nodeTaints=[{"key": "k", "effect": "NoSchedule"}], tolerations=[{"operator": "Exists"}]
        ),
        queue({"a": {"nominalQuota": 1, "borrowingLimit": 1, "lendingLimit": 1}}, cohortName="c"),
        kueue("Cohort", "c", parentName="d", resourceGroups=groups({"a": 8})),
        local(),
        volcano("q", to=["x"], against=["y"]),
    ]
    broken = deepcopy(data.draw(st.sampled_from(bad)))
    place = data.draw(st.sampled_from(_places(broken)[1:]))
    inside = broken
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = data.draw(_JSON)
    found = read_queues((str(index), one) for index, one in enumerate([*good, *bad, broken]))
    assert found.queues.known["Kueue", "team-a", "mine"].flavors[0].quota == {GPU: 8}
