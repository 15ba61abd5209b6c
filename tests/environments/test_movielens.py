"""MovieLens: the real tables where they are at hand, their stand-in, and the download."""

import hashlib
import http.server
import os
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from linmed.environments import MovieLens
from linmed.environments.datasets import download

REAL = os.environ.get("LINMED_ML100K")


def write_tables(directory: Path, films: int = 12, users: int = 9) -> None:
    rng = np.random.default_rng(3)
    directory.mkdir(parents=True)
    flags = rng.integers(0, 2, (films, 19))
    items = [f"{i}|Caf\xe9 {i}|01-Jan-1995||http://x|" + "|".join(map(str, flags[i])) for i in range(films)]
    (directory / "u.item").write_text("\n".join(items) + "\n", encoding="latin-1")
    people = [
        f"{i}|{20 + 3 * i}|{'MF'[i % 2]}|{('artist', 'doctor', 'writer')[i % 3]}|{('T8H1N', '85711')[i % 2]}"
        for i in range(users)
    ]
    (directory / "u.user").write_text("\n".join(people) + "\n")


def test_features_are_read_and_the_source_is_told(tmp_path):
    write_tables(tmp_path / "ml-100k")
    environment = MovieLens(tmp_path / "ml-100k", arms=5)
    assert environment.source == "ml-100k"
    assert MovieLens(arms=5).source == "generated"
    block = next(environment.blocks(np.random.default_rng(0)))
    assert block.arms.shape == (1024, 5, 4)
    assert block.arms.min() >= 0
    largest = np.outer(np.linalg.norm(environment._films, axis=1), np.linalg.norm(environment._users, axis=1))
    assert largest.max() == pytest.approx(1.0, abs=1e-12)


def test_films_stay_and_users_change(tmp_path):
    block = next(MovieLens(arms=3).blocks(np.random.default_rng(0)))
    # Every arm is film ⊗ user, a matrix of rank one; the ratio between films is the same in every round.
    matrices = block.arms.reshape(1024, 3, 2, 2)
    np.testing.assert_allclose(np.linalg.det(matrices), 0.0, atol=1e-15)
    assert len(np.unique(block.arms[:, 0, 0])) > 100


def test_the_path_is_no_part_of_the_identity_but_the_features_are(tmp_path):
    write_tables(tmp_path / "one" / "ml-100k")
    write_tables(tmp_path / "two" / "ml-100k")
    one, two = (MovieLens(tmp_path / name / "ml-100k", arms=5) for name in ("one", "two"))
    assert one.identity() == two.identity()
    assert one == two
    assert one.identity() != MovieLens(arms=5).identity()


def test_an_unreadable_directory_names_the_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"u\.item cannot be read"):
        MovieLens(tmp_path)
    write_tables(tmp_path / "ml-100k")
    (tmp_path / "ml-100k" / "u.user").unlink()
    with pytest.raises(FileNotFoundError, match=r"u\.user cannot be read"):
        MovieLens(tmp_path / "ml-100k")


def test_damaged_tables_name_file_and_line(tmp_path):
    write_tables(tmp_path / "ml-100k")
    item = tmp_path / "ml-100k" / "u.item"
    lines = item.read_text(encoding="latin-1").splitlines()
    item.write_text("\n".join([*lines[:4], "5|half a line", *lines[5:]]), encoding="latin-1")
    with pytest.raises(ValueError, match=r"u\.item, line 5: 2 fields"):
        MovieLens(tmp_path / "ml-100k")
    item.write_text("", encoding="latin-1")
    with pytest.raises(ValueError, match="holds 0 rows"):
        MovieLens(tmp_path / "ml-100k")


@pytest.mark.skipif(REAL is None, reason="LINMED_ML100K does not point to an ml-100k directory")
def test_the_real_data_set():
    environment = MovieLens(REAL)
    assert environment._films.shape == (1682, 2)
    assert environment._users.shape == (943, 2)
    assert environment.digest != MovieLens().digest


@pytest.fixture
def publisher(tmp_path):
    """A web server with an archive and its MD5 file, as GroupLens has them."""
    site = tmp_path / "site"
    write_tables(site / "build" / "ml-100k")
    with zipfile.ZipFile(site / "ml-100k.zip", "w") as archive:
        for file in sorted((site / "build" / "ml-100k").iterdir()):
            archive.write(file, f"ml-100k/{file.name}")
        archive.writestr("../evil.txt", "outside")
    digest = hashlib.md5((site / "ml-100k.zip").read_bytes()).hexdigest()
    (site / "ml-100k.zip.md5").write_text(f"MD5 (ml-100k.zip) = {digest}\n")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(site))

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield site, f"http://127.0.0.1:{server.server_port}/ml-100k.zip"
        server.shutdown()
        thread.join()


def test_download_unpacks_what_the_publisher_vouches_for(publisher, tmp_path):
    _, url = publisher
    path = download(tmp_path / "data", url)
    assert MovieLens(path, arms=5).source == "ml-100k"
    assert sorted(file.name for file in (tmp_path / "data").iterdir()) == ["ml-100k"]
    assert not (tmp_path / "evil.txt").exists()
    assert download(tmp_path / "data", "http://127.0.0.1:1/nowhere.zip") == path  # already here


def test_download_refuses_an_archive_that_does_not_match(publisher, tmp_path):
    site, url = publisher
    (site / "ml-100k.zip.md5").write_text("0" * 32)
    with pytest.raises(ValueError, match="its publisher states 0000"):
        download(tmp_path / "data", url)
    assert not (tmp_path / "data").exists()
    (site / "ml-100k.zip.md5").write_text("not found")
    with pytest.raises(ValueError, match="holds no MD5 sum"):
        download(tmp_path / "data", url)


def test_generated_features_are_not_drawn_from_a_stream_that_users_draw_from():
    from linmed.environments.datasets import GENRES, MOVIES, generated

    for seed in (0, 100_000):
        rng = np.random.default_rng(seed)
        flags = (rng.random((MOVIES, GENRES)) < rng.beta(1.0, 8.0, GENRES)).astype(np.float64)
        assert not np.array_equal(generated()[0], flags)
