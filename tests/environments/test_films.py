"""Films: ml-100k and its stand-in, the download, and how the public code of the paper reads them."""

import hashlib
import http.server
import os
import threading
import zipfile

import numpy as np
import pytest

from linmed.environments import Environment, MovieLens
from linmed.environments.datasets import GENRES, MOVIES, download, generated
from linmed.paper.as_run import FilmsAsRun

REAL = os.environ.get("LINMED_ML100K")
JOBS = ("artist", "doctor", "writer")


def write_tables(directory, users=12, occupations=JOBS):
    rng = np.random.default_rng(2)
    directory.mkdir(parents=True)
    flags = rng.integers(0, 2, (15, 19))
    items = [f"{i}|Caf\xe9 {i}|01-Jan-1995||http://x|" + "|".join(map(str, flags[i])) for i in range(15)]
    (directory / "u.item").write_text("\n".join(items) + "\n", encoding="latin-1")
    people = [f"{i}|{20 + i * i % 17}|{'MF'[i % 2]}|{JOBS[i * i % 3]}|{85700 + 7 * i}" for i in range(users)]
    (directory / "u.user").write_text("\n".join(people) + "\n")
    (directory / "u.occupation").write_text("\n".join(occupations) + "\n")
    return directory


def test_features_are_read_and_the_source_is_told(tmp_path):
    environment = MovieLens(write_tables(tmp_path / "ml-100k"), arms=5)
    assert environment.source == "ml-100k"
    assert MovieLens(arms=5).source == "generated"
    block = next(environment.blocks(np.random.default_rng(0)))
    assert block.arms.shape == (1024, 5, 4)
    assert block.arms.min() >= 0
    largest = np.outer(np.linalg.norm(environment._films, axis=1), np.linalg.norm(environment._users, axis=1))
    assert largest.max() == pytest.approx(1.0, abs=1e-12)


def test_films_stay_and_users_change():
    block = next(MovieLens(arms=3).blocks(np.random.default_rng(0)))
    # Every arm is film ⊗ user, a matrix of rank one; the ratio between films is the same in every round.
    matrices = block.arms.reshape(1024, 3, 2, 2)
    np.testing.assert_allclose(np.linalg.det(matrices), 0.0, atol=1e-15)
    assert len(np.unique(block.arms[:, 0, 0])) > 100


@pytest.mark.parametrize("kind", [MovieLens, FilmsAsRun])
def test_the_path_is_no_part_of_the_identity_but_the_tables_are(tmp_path, kind):
    one, two = (kind(write_tables(tmp_path / name)) for name in ("one", "two"))
    assert one.identity() == two.identity() == {**one.to_dict(), "path": f"sha256:{one.digest}"}
    assert one == two
    assert one.identity() != kind().identity()
    assert Environment.from_dict(one.to_dict()) == one


@pytest.mark.parametrize("kind", [MovieLens, FilmsAsRun])
def test_an_unreadable_directory_names_the_missing_file(tmp_path, kind):
    with pytest.raises(FileNotFoundError, match=r"u\.item cannot be read"):
        kind(tmp_path)
    (write_tables(tmp_path / "ml-100k") / "u.user").unlink()
    with pytest.raises(FileNotFoundError, match=r"u\.user cannot be read"):
        kind(tmp_path / "ml-100k")


def test_damaged_tables_name_file_and_line(tmp_path):
    item = write_tables(tmp_path / "ml-100k") / "u.item"
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
    tables = write_tables(site / "build" / "ml-100k")
    with zipfile.ZipFile(site / "ml-100k.zip", "w") as archive:
        for file in sorted(tables.iterdir()):
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
    for seed in (0, 100_000):
        rng = np.random.default_rng(seed)
        flags = (rng.random((MOVIES, GENRES)) < rng.beta(1.0, 8.0, GENRES)).astype(np.float64)
        assert not np.array_equal(generated()[0], flags)


# ---- as the public code of the paper reads and divides them


def test_trials_share_users_films_and_theta():
    films = FilmsAsRun()
    one, other = (next(films.blocks(np.random.default_rng(seed))) for seed in (0, 1))
    offered = {tuple(arms.ravel()) for arms in (*one.arms, *other.arms)}
    assert len(offered) == 10
    np.testing.assert_allclose(np.linalg.norm(films.theta), 1.0)
    np.testing.assert_allclose(one.means, one.arms @ films.theta)


def test_the_shortest_arm_of_every_round_has_norm_one():
    block = next(FilmsAsRun().blocks(np.random.default_rng(0)))
    np.testing.assert_allclose(np.linalg.norm(block.arms, axis=2).min(axis=1), 1.0)


def test_the_next_users_arms_overwrite_a_round_across_blocks_too():
    films = FilmsAsRun()
    stream = films.blocks(np.random.default_rng(0))
    first, second = next(stream), next(stream)
    arms, later = (
        np.concatenate([first.arms, second.arms]),
        np.concatenate([first.overwritten, second.overwritten]),
    )
    shortest = np.linalg.norm(later, axis=2).min(axis=1)[:, None, None]
    np.testing.assert_allclose(later[:-1] / shortest[:-1], arms[1:])
    assert not np.allclose(shortest, 1.0)


def test_the_order_of_occupations_matters(tmp_path):
    films = FilmsAsRun(write_tables(tmp_path / "one"))
    other = FilmsAsRun(write_tables(tmp_path / "two", occupations=JOBS[::-1]))
    assert films.identity() != other.identity()
    assert (films.source, FilmsAsRun().name) == ("ml-100k", "FilmsAsRun(generated, sigma=1.0)")


def test_tables_that_cannot_be_used_are_refused(tmp_path):
    with pytest.raises(ValueError, match="10 of each are drawn"):
        FilmsAsRun(write_tables(tmp_path / "few", users=6))
    with pytest.raises(ValueError, match="occupation that is none"):
        FilmsAsRun(write_tables(tmp_path / "unknown", occupations=("baker", "cook", "nurse")))
    with pytest.raises(ValueError, match="bernoulli"):
        FilmsAsRun(noise="bernoulli")


@pytest.mark.skipif(REAL is None, reason="LINMED_ML100K does not point to an ml-100k directory")
def test_the_real_films_have_the_norms_of_an_independent_reading():
    films = FilmsAsRun(REAL)
    norms = np.linalg.norm(films.scaled, axis=2)
    assert np.linalg.norm(films.raw, axis=2).min() == pytest.approx(0.0036, abs=1e-4)
    assert np.median(norms) == pytest.approx(16.0, abs=0.5)
    assert norms.max() == pytest.approx(26.0, abs=0.5)
