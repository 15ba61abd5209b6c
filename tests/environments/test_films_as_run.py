"""The films of the public code's delay experiment: read as it reads them, divided by the smallest norm."""

import os

import numpy as np
import pytest

from linmed.environments import Environment
from linmed.paper.as_run.films import FilmsAsRun

REAL = os.environ.get("LINMED_ML100K")


def write_tables(directory, users=12, occupations="artist\ndoctor\nwriter\n"):
    rng = np.random.default_rng(2)
    directory.mkdir()
    flags = rng.integers(0, 2, (15, 19))
    items = [f"{i}|Film {i}|01-Jan-1995||http://x|" + "|".join(map(str, flags[i])) for i in range(15)]
    (directory / "u.item").write_text("\n".join(items) + "\n")
    jobs = ("artist", "doctor", "writer")
    people = [f"{i}|{20 + i * i % 17}|{'MF'[i % 2]}|{jobs[i * i % 3]}|{85700 + 7 * i}" for i in range(users)]
    (directory / "u.user").write_text("\n".join(people) + "\n")
    (directory / "u.occupation").write_text(occupations)
    return directory


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


def test_files_are_read_and_stand_for_themselves(tmp_path):
    films = FilmsAsRun(write_tables(tmp_path / "one"))
    assert films.source == "ml-100k"
    assert films.identity() == FilmsAsRun(write_tables(tmp_path / "two")).identity()
    assert films.identity() != FilmsAsRun().identity()
    assert Environment.from_dict(films.to_dict()) == films
    assert FilmsAsRun().name == "FilmsAsRun(generated, sigma=1.0)"


def test_the_order_of_occupations_matters(tmp_path):
    films = FilmsAsRun(write_tables(tmp_path / "one"))
    other = FilmsAsRun(write_tables(tmp_path / "two", occupations="doctor\nartist\nwriter\n"))
    assert films.identity() != other.identity()


def test_tables_that_cannot_be_used_are_refused(tmp_path):
    with pytest.raises(ValueError, match="10 of each are drawn"):
        FilmsAsRun(write_tables(tmp_path / "few", users=6))
    with pytest.raises(ValueError, match="occupation that is none"):
        FilmsAsRun(write_tables(tmp_path / "unknown", occupations="baker\ncook\nnurse\n"))
    with pytest.raises(FileNotFoundError, match=r"u\.item"):
        FilmsAsRun(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="bernoulli"):
        FilmsAsRun(noise="bernoulli")


@pytest.mark.skipif(REAL is None, reason="LINMED_ML100K names no ml-100k directory")
def test_the_real_films_have_the_norms_of_an_independent_reading():
    films = FilmsAsRun(REAL)
    norms = np.linalg.norm(films.scaled, axis=2)
    assert np.linalg.norm(films.raw, axis=2).min() == pytest.approx(0.0036, abs=1e-4)
    assert np.median(norms) == pytest.approx(16.0, abs=0.5)
    assert norms.max() == pytest.approx(26.0, abs=0.5)
