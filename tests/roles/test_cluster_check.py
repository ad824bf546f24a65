"""What a site says of its network reaches the verdict."""

from role_files import of_the_site


def test_a_threshold_of_a_site_is_the_one_that_is_judged_by() -> None:
    for said, limit in (({}, 1), ({"cluster_check_bandwidth_gigabits": 25}, 25)):
        site = of_the_site("cluster_check", **said)
        evidence = site.available_variables["cluster_check_evidence"]
        thresholds = site.template(evidence["thresholds"])
        assert thresholds["bandwidth_gigabits"] == limit
