"""Following uses from what changed."""

from graph import Graph


def test_a_change_reaches_its_users_by_the_shortest_way() -> None:
    graph = Graph()
    for user, used in (("a", "b"), ("b", "c"), ("a", "d"), ("d", "e"), ("e", "c"), ("c", "a")):
        graph.add(user, used)
    ways = {thing: reached.way for thing, reached in graph.reached_from("c").items()}
    assert ways == {
        "c": ("c",),
        "b": ("c", "b"),
        "e": ("c", "e"),
        "a": ("c", "b", "a"),
        "d": ("c", "e", "d"),
    }
    assert graph.reached_from("a")["b"].steps == 2


def test_what_nobody_uses_reaches_itself() -> None:
    assert [*Graph().reached_from("alone")] == ["alone"]
