"""Answers as frames: what no frame can hold becomes a double, rounded outward."""

from discreet.formats import to_arrow, to_polars


def test_what_no_frame_can_hold_becomes_a_double_outward() -> None:
    far, header = 10**30 + 1, ("n", "n_lower", "n_upper", "k")
    rows = [(far, far, far, 1), (1, 1, 1, 2)]
    for found in (to_arrow(header, rows).to_pydict(), to_polars(header, rows).to_dict(as_series=False)):
        assert found["n"] == [1e30, 1.0]
        assert found["k"] == [1, 2]
        assert found["n_lower"][0] < far < found["n_upper"][0]
