# SPDX-License-Identifier: Apache-2.0
"""Public data sets are downloaded once, checked and kept, and the bundled one is as generated."""

import functools
import hashlib
import http.server
import threading
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from scipy.io import savemat

import mtboost
from mtboost.datasets import (
    fetch_landmine,
    fetch_mulan,
    fetch_school,
    get_data_home,
    load_stores,
    public_sets,
)
from mtboost.datasets.remote import RemoteFile, fetch
from mtboost.datasets.stores import COLUMNS, generate_stores
from mtboost.errors import DataError, ParameterError


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        if self.path == "/cut.bin":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"half")
        else:
            super().do_GET()

    def log_message(self, *arguments):
        pass


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that is published on this machine, its address, and the requests so far."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("no_proxy", "*")
    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.requests = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        server.folder, server.url = folder, f"http://127.0.0.1:{server.server_port}"
        yield server
        server.shutdown()
        thread.join()


def cells(parts):
    found = np.empty((1, len(parts)), object)
    found[0] = parts
    return found


def sizes(n_rows, n_tasks):
    return np.bincount(np.arange(n_rows) % n_tasks)


def school_file(path, total=316416):
    """Cell arrays as MALSAR's: 28 columns, of which the last is constant."""
    y = np.full(15362, total // 15362)
    y[: total % 15362] += 1
    X = np.ones((15362, 28))
    X[:, 3] = np.arange(15362)
    ends = np.cumsum(sizes(15362, 139))[:-1]
    labels = [own[:, None] for own in np.split(y, ends)]
    savemat(path, {"X": cells(np.split(X, ends)), "Y": cells(labels)}, do_compression=True)


def published(site, monkeypatch, name):
    file = getattr(public_sets, name)
    monkeypatch.setattr(public_sets, name, replace(file, url=f"{site.url}/{file.name}"))
    return site.folder / file.name


# ---- the folder ----------------------------------------------------------------------------------


def test_the_data_home_is_the_argument_else_the_environment_variable_else_in_the_home(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.delenv("MTBOOST_DATA", raising=False)
    assert get_data_home() == tmp_path / "mtboost_data"
    monkeypatch.setenv("MTBOOST_DATA", str(tmp_path / "elsewhere"))
    assert get_data_home() == tmp_path / "elsewhere"
    assert get_data_home("~/here") == tmp_path / "here"
    assert list(tmp_path.iterdir()) == []


# ---- one file ------------------------------------------------------------------------------------


def read(file):
    contents = file.read()
    if contents == b"bad":
        raise DataError("The contents are bad.")
    return contents


def test_a_file_is_downloaded_once(site, tmp_path):
    (site.folder / "table.bin").write_bytes(b"contents")
    digest = hashlib.sha256(b"contents").hexdigest()
    file = RemoteFile("table.bin", f"{site.url}/table.bin", digest)
    home = tmp_path / "new" / "home"
    for _ in range(2):
        assert fetch(file, home, True, read) == b"contents"
    assert site.requests == ["/table.bin"]
    assert [path.name for path in home.iterdir()] == ["table.bin"]
    assert fetch(file, home, False, read) == b"contents"


def test_a_file_with_another_checksum_or_other_contents_is_not_kept(site, tmp_path):
    (site.folder / "table.bin").write_bytes(b"bad")
    file = RemoteFile("table.bin", f"{site.url}/table.bin", "0" * 64)
    with pytest.raises(DataError, match=rf"table.bin: The SHA-256 is [0-9a-f]{{64}} .* {'0' * 64}"):
        fetch(file, tmp_path, True, read)
    with pytest.raises(DataError, match=r"The contents are bad. Download http.* and save it as "):
        fetch(replace(file, sha256=None), tmp_path, True, read)
    with pytest.raises(DataError, match="damaged, or of another format"):
        fetch(replace(file, sha256=None), tmp_path, True, np.load)
    assert not (tmp_path / "table.bin").exists()


def test_a_damaged_file_of_the_folder_is_named(tmp_path):
    (tmp_path / "table.bin").write_bytes(b"bad")
    file = RemoteFile("table.bin", "http://127.0.0.1:9/table.bin")
    with pytest.raises(DataError, match=r"table.bin: The contents are bad. Remove the file and"):
        fetch(file, tmp_path, True, read)


@pytest.mark.parametrize("address", ["{site}/missing.bin", "{site}/cut.bin", "file:///no/file"])
def test_without_the_file_the_message_says_where_to_save_it(site, tmp_path, address):
    url = address.format(site=site.url)
    with pytest.raises(OSError, match="Cannot download") as found:
        fetch(RemoteFile("table.bin", url), tmp_path / "home", True, read)
    assert f"Download {url} by other means and save it as" in str(found.value)
    assert str(tmp_path / "home" / "table.bin") in str(found.value)
    assert "MTBOOST_DATA" in str(found.value)
    assert not (tmp_path / "home").exists()


def test_download_if_missing_false_sends_no_request(site, tmp_path):
    file = RemoteFile("table.bin", f"{site.url}/table.bin")
    with pytest.raises(FileNotFoundError, match="table.bin does not exist, and download_if"):
        fetch(file, tmp_path, False, read)
    assert site.requests == []


# ---- the sets ------------------------------------------------------------------------------------


def test_school_has_a_task_per_school_and_no_constant_column(site, tmp_path, monkeypatch):
    school_file(published(site, monkeypatch, "SCHOOL"))
    found = fetch_school(data_home=tmp_path)
    assert found.data.shape == (15362, 27)
    assert len(found.feature_names) == len(set(found.feature_names)) == 27
    np.testing.assert_array_equal(found.data[:, 3], np.arange(15362))
    np.testing.assert_array_equal(np.bincount(found.task), sizes(15362, 139))
    assert found.target.sum() == 316416
    assert "139 schools" in found.DESCR
    assert "Parameters" not in found.DESCR
    assert found.frame is None
    X, y, school = fetch_school(data_home=tmp_path, return_X_y_task=True, as_frame=True)
    assert X.columns.tolist() == found.feature_names
    assert (y.name, school.name) == ("score", "school")
    assert site.requests == ["/school.mat"]


def test_another_file_under_the_name_of_school_is_refused(site, tmp_path, monkeypatch):
    school_file(published(site, monkeypatch, "SCHOOL"), total=316417)
    with pytest.raises(DataError, match="sum of the labels is 316417.0 instead of 316416"):
        fetch_school(data_home=tmp_path)
    savemat(site.folder / "school.mat", {"X": cells([np.ones((2, 2)), np.ones((1, 2))])})
    with pytest.raises(DataError, match="no variable 'Y'"):
        fetch_school(data_home=tmp_path)


def test_landmine_has_classes(site, tmp_path, monkeypatch):
    y = (np.arange(14820) < 904).astype(np.uint8)
    ends = np.cumsum(sizes(14820, 29))[:-1]
    contents = {
        "feature": cells(np.split(np.ones((14820, 9)), ends)),
        "label": cells([own[:, None] for own in np.split(y, ends)]),
    }
    savemat(published(site, monkeypatch, "LANDMINE"), contents, do_compression=True)
    found = fetch_landmine(data_home=tmp_path)
    assert found.data.shape == (14820, len(found.feature_names)) == (14820, 9)
    assert found.target.dtype == np.int64
    assert found.target_names == ["clutter", "landmine"]
    assert len(np.unique(found.task)) == 29


def test_outputs_of_mulan_are_the_last_columns(site, tmp_path, monkeypatch):
    wq = public_sets._MULAN["wq"]
    published_here = replace(wq, file=replace(wq.file, url=f"{site.url}/wq.arff"))
    monkeypatch.setitem(public_sets._MULAN, "wq", published_here)
    lines = ["% a comment", "@RELATION 'water'", ""]
    lines += [f"@ATTRIBUTE x{column}   numeric" for column in range(16)]
    lines += [f"@ATTRIBUTE {code} numeric" for code in range(25400, 25414)]
    lines += ["", "@DATA", *[",".join(map(str, range(30)))] * 1060]
    (site.folder / "wq.arff").write_text("\n".join(lines))
    found = fetch_mulan("wq", data_home=tmp_path)
    assert found.data.shape == (1060, 16)
    assert found.feature_names[-1] == "x15"
    assert found.target_names == [str(code) for code in range(25400, 25414)]
    np.testing.assert_array_equal(found.target[0], np.arange(16.0, 30.0))
    assert "task" not in found
    X, Y = fetch_mulan("wq", data_home=tmp_path, return_X_y=True, as_frame=True)
    assert (X.shape, Y.columns.tolist()) == ((1060, 16), found.target_names)
    (tmp_path / "wq.arff").write_text("\n".join(lines[:-1]))
    with pytest.raises(DataError, match=r"shape \(1059, 30\) instead of \(1060, 30\)"):
        fetch_mulan("wq", data_home=tmp_path)
    with pytest.raises(ParameterError, match="name must be 'atp1d' or 'wq'"):
        fetch_mulan("water")


# ---- the bundled set -----------------------------------------------------------------------------


def test_the_file_of_the_stores_is_what_its_generator_writes():
    head, *rows = (files("mtboost.datasets") / "stores.csv").read_text("utf-8").splitlines()
    assert head.split(",") == list(COLUMNS)
    assert rows == [",".join(row) for row in generate_stores()]


def test_stores_are_a_table_with_tasks_of_unequal_size():
    found = load_stores(as_frame=True)
    features = ["week", "price", "promotion", "holiday", "temperature"]
    assert found.frame.columns.tolist() == [*features, "store", "units"]
    n_rows = found.frame.groupby("store").size()
    assert len(n_rows) == 30
    assert n_rows.min() < 0.5 * n_rows.max()
    X, y, store = load_stores(return_X_y_task=True)
    np.testing.assert_array_equal(X, found.data)
    np.testing.assert_array_equal(y, found.target)
    np.testing.assert_array_equal(store, found.task)
    assert (y == np.round(y)).all()
    model = mtboost.fit(
        found.frame.drop(columns="units"), y, task="store", strategy="two-stage", num_boost_round=20
    )
    assert np.mean((model.predict(found.frame) - y) ** 2) < 0.3 * np.var(y)
