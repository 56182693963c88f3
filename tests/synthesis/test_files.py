"""Files of synthetic rows carry their warning."""

import json
from pathlib import Path

import numpy as np
import pytest

from discreet.errors import BadParameter
from discreet.mechanisms.gaussian import Gaussian
from discreet.synthesis.files import WARNING, SyntheticTable, name_columns
from discreet.synthesis.measuring import NoisyTable
from discreet.synthesis.metrics import bound_distances

CODES = np.array([[0, 1], [1, 0], [1, 2]])
KEYS = (("f", "m"), ("a,b", None, 'say "x"'))


def make_table() -> SyntheticTable:
    bounds = bound_distances(CODES, (2, 3), [NoisyTable((0,), np.array([10, 20]), Gaussian(3))])
    return SyntheticTable(CODES, ("sex", "job"), KEYS, bounds)


def test_a_csv_file_has_its_warning_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    text = make_table().to_csv(path)
    assert path.read_text() == text == 'sex,job\nf,\nm,"a,b"\nm,"say ""x"""\n'
    beside = json.loads((tmp_path / "rows.csv.json").read_text())
    assert beside["warning"] == WARNING
    assert beside["synthetic"] is True
    assert beside["rows"] == 3
    assert "have no bound" in beside["distance"] or "No bound" in beside["distance"]


def test_no_rows_are_written_where_the_warning_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "rows.csv.json").mkdir()
    with pytest.raises(BadParameter, match="cannot be written"):
        make_table().to_csv(tmp_path / "rows.csv")
    assert not (tmp_path / "rows.csv").exists()


def test_a_parquet_file_has_its_warning_inside(tmp_path: Path) -> None:
    from pyarrow import parquet

    make_table().to_parquet(tmp_path / "rows.parquet")
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert json.loads(table.schema.metadata[b"discreet"])["warning"] == WARNING
    assert table.to_pylist()[2] == {"sex": "m", "job": 'say "x"'}


def test_a_frame_has_its_warning_in_its_attributes() -> None:
    frame = make_table().to_pandas()
    assert frame.attrs["discreet"]["warning"] == WARNING
    assert frame["sex"].tolist() == ["f", "m", "m"]


def test_seeded_noise_is_said_in_the_file() -> None:
    table = SyntheticTable(CODES, *name_columns((2, 3)), tainted=True)
    assert "never for publication" in table.metadata["tainted"]
    assert table.to_csv().splitlines()[:2] == ["c0,c1", "0,1"]


def test_names_and_keys_fit_the_rows() -> None:
    with pytest.raises(BadParameter, match="one name and one list of keys per column"):
        SyntheticTable(CODES, ("a",), (("x",),))
