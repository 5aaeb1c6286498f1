"""Chains that finish a fit."""

import pickle
import warnings

import numpy as np
import pytest

import natmix


def heavy(z):
    """Independent Student t with 3 degrees of freedom."""
    return -2 * np.log1p(z**2 / 3).sum(axis=1), -4 * z / (3 + z**2)


@pytest.fixture(scope="module")
def rough():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", natmix.NatmixWarning)
        return natmix.fit(heavy, dim=2, names=["a", "b"], components=1, finish="never", max_evals=2000, seed=2)


@pytest.fixture(scope="module")
def finished(rough):
    return natmix.finish(rough)


def test_a_posterior_is_finished_by_chains(rough, finished):
    assert finished.level == "chains" and finished.trusted
    assert rough.level != "chains" and rough.r_hat is None
    np.testing.assert_array_equal(finished.means, rough.means)
    # All evaluations: those of the first fit, too.
    parts = finished._report["evals"]
    assert parts["points"] == rough.evals and parts["chains"] > 10_000
    assert finished.evals == sum(parts.values())
    assert set(finished.r_hat) == {"a", "b"} and max(finished.r_hat.values()) < 1.01
    table = finished.summary()
    assert table.columns[-2:] == ("r_hat", "ess") and (table["ess"] > 500).all()
    assert "r_hat" in str(finished)
    # 95% quantile of a t with 3 degrees of freedom.
    np.testing.assert_allclose(table["q95"], 2.3534, atol=0.25)
    assert natmix.finish(rough).sample(10).tolist() == finished.sample(10).tolist()


def test_arviz_gets_several_chains(finished):
    pytest.importorskip("arviz_base")
    arviz = pytest.importorskip("arviz")
    tree = finished.to_arviz()
    assert tree.posterior.sizes["chain"] == 8
    assert tree.posterior.sizes["chain"] * tree.posterior.sizes["draw"] == len(finished._record.draws)
    for name in ("a", "b"):
        # About what natmix says itself.
        draws = tree.posterior[name].values
        assert arviz.rhat(draws) < 1.01
        assert arviz.ess(draws) > 0.5 * finished.summary()[name]["ess"]
    stats = tree.sample_stats
    assert {"lp", "energy", "diverging", "walker", "iteration", "component", "log_q", "log_p"} <= set(stats.data_vars)
    z = np.stack([tree.posterior["a"].values.ravel(), tree.posterior["b"].values.ravel()], axis=1)
    np.testing.assert_allclose(heavy(z)[0], stats["lp"].values.ravel(), rtol=1e-12)
    assert stats["walker"].values.max() == 63 and (np.diff(stats["walker"].values.ravel()) >= 0).all()
    # A number of draws by itself is one chain, in random order.
    assert finished.to_arviz(100).posterior.sizes["chain"] == 1


def test_chains_are_kept_with_the_posterior(finished, tmp_path):
    finished.save(tmp_path / "fit")
    for again in (natmix.load(tmp_path / "fit"), pickle.loads(pickle.dumps(finished))):
        assert again.level == "chains"
        np.testing.assert_array_equal(again._record.draws, finished._record.draws)
        ours, theirs = again._record.chains, finished._record.chains
        assert ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in ours)
        np.testing.assert_array_equal(again.sample(20), finished.sample(20))
    assert "Traces of the chains" in finished.report_html()


def test_what_cannot_be_finished_is_named(rough, tmp_path):
    with pytest.raises(TypeError, match="needs a natmix.Posterior, not str"):
        natmix.finish("fit")
    rough.save(tmp_path / "fit")
    loaded = natmix.load(tmp_path / "fit")
    with pytest.raises(ValueError, match="chains need the target of the fit"):
        natmix.finish(loaded)
    target = natmix.from_callable(heavy, 2, names=["a", "b"])
    assert natmix.finish(loaded, target).level == "chains"
    with pytest.raises(ValueError, match="finish must not be always for a target without gradients"):
        natmix.fit(lambda z: heavy(z)[0], dim=2, gradient="none", finish="always")


def test_settings(rough):
    post = natmix.fit(heavy, dim=2, components=1, finish="always", goal="elbo")
    assert post.level == "chains"
    assert rough._report["evals"]["chains"] == 0
