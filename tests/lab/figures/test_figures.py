"""The numbers behind each figure, against the textbooks' figures or an independent computation."""

from fractions import Fraction
from functools import cache
from math import comb, e, exp, log, sqrt

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from discreet import Gaussian
from discreet import epsilon as certified
from discreet.lab import FIGURES
from discreet.lab.figures import Numbers
from discreet.lab.figures.noise import RUNS, SIZES
from discreet.lab.figures.training import CLIP, EPSILONS, GRID, RATE, _invent_people, _train, training_sigma
from discreet.testing import seeded_bits

SIGMAS = 7.5  # the bits are seeded, so a comparison always holds; with fresh bits it would fail once in 10¹³


@cache
def numbers(name: str) -> Numbers:
    return FIGURES[name].numbers()


def laplace_pmf(scale: float, k: np.ndarray) -> np.ndarray:
    a = exp(-1 / scale)
    return (1 - a) / (1 + a) * a ** np.abs(k)


def gaussian_delta(sigma: float, epsilon: float) -> mp.mpf:
    with mp.workdps(40):
        mu, eps = 1 / mp.mpf(sigma), mp.mpf(epsilon)
        return mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)


def response_delta(epsilon: float, k: int, at: float) -> mp.mpf:
    """δ of k randomised responses at ε' = `at`: the hockey-stick divergence, summed over the number of lies."""
    with mp.workdps(40):
        a, seen = mp.exp(-mp.mpf(epsilon)), mp.exp(mp.mpf(at))
        total = (1 + a) ** k
        return mp.fsum(comb(k, lies) * max(mp.mpf(0), a**lies - seen * a ** (k - lies)) / total for lies in range(k + 1))


def max_deviation(shares: np.ndarray, pmf: np.ndarray, draws: int) -> float:
    """The largest deviation of observed shares from a distribution, in standard deviations."""
    return float((np.abs(shares - pmf) / np.sqrt(pmf * (1 - pmf) / draws + 1 / draws**2)).max())


# -- noise ------------------------------------------------------------------------------------------------------------------


def test_laplace_gaussian() -> None:
    n = numbers("laplace-gaussian")
    k = n["noise"]
    assert n["sigma, classical"] == pytest.approx(sqrt(2 * log(1.25e5)), rel=1e-12)
    assert gaussian_delta(float(n["sigma, exact"]), 1) <= 1e-5 < gaussian_delta(float(n["sigma, exact"]) * (1 - 1e-9), 1)
    assert n["laplace"] == pytest.approx(laplace_pmf(1, k), rel=1e-12)
    for rule in ("classical", "exact"):
        sigma = float(n[f"sigma, {rule}"])
        pmf = stats.norm.cdf((k + 0.5) / sigma) - stats.norm.cdf((k - 0.5) / sigma)
        assert n[f"gaussian, {rule}"] == pytest.approx(pmf, abs=1e-14)
    assert max_deviation(n["laplace drawn"], n["laplace"], 100_000) < SIGMAS
    assert max_deviation(n["gaussian drawn"], n["gaussian, classical"], 100_000) < SIGMAS
    assert max_deviation(n["gaussian drawn"], n["gaussian, exact"], 100_000) > 4 * SIGMAS, "a mutant of another σ is noticed"


def test_laplace_densities() -> None:
    n = numbers("laplace-densities")
    for scale in (1, 2, 4, 7):
        assert n[f"density, λ = {scale}"] == pytest.approx(stats.laplace.pdf(n["x"], scale=scale), rel=1e-12)
        assert n[f"lattice, λ = {scale}"] == pytest.approx(laplace_pmf(scale, n["k"]), rel=1e-12)
    assert n["density, λ = 2"] != pytest.approx(stats.laplace.pdf(n["x"], scale=4), rel=0.1)


def test_indistinguishable() -> None:
    n = numbers("indistinguishable")
    k = n["answer"]
    assert n["without"] == pytest.approx(laplace_pmf(4, k), rel=1e-12)
    assert n["with"] == pytest.approx(laplace_pmf(4, k - 1), rel=1e-12)
    assert np.abs(n["loss"]).max() == pytest.approx(0.25, rel=1e-12) == float(n["max divergence"])
    assert ((n["least"] <= n["with"] * (1 + 1e-12)) & (n["with"] <= n["most"] * (1 + 1e-12))).all()
    mutant = laplace_pmf(4, k - 2)  # two people more
    assert not ((n["least"] <= mutant) & (mutant <= n["most"])).all()


# -- composition ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "small", "checked"), [("composition-100", 0.1, (5, 30, 99)), ("composition-10000", 0.01, (46,))]
)
def test_composition(name: str, small: float, checked: tuple[int, ...]) -> None:
    n = numbers(name)
    k = n["k"]
    assert (k[0], k[-1]) == (1, int(name.partition("-")[2]))
    assert (n["sequential"] == k).all()
    assert n["as printed"] == pytest.approx([2 * sqrt(2 * one * log(1e4)) for one in k], rel=1e-12)
    assert n["crossing"] == pytest.approx(73.7, abs=0.05)
    assert 2 * sqrt(2 * n["crossing"] * log(1e4)) == pytest.approx(float(n["crossing"]), rel=1e-12)
    for epsilon in (1, small):
        exact = n[f"exact, ε = {epsilon:g}"] * epsilon
        assert (exact <= n["sequential"] * epsilon * (1 + 1e-12)).all()
        for i in checked:
            assert response_delta(epsilon, int(k[i]), exact[i]) <= 1e-4 * (1 + 1e-9)
            assert exact[i] == k[i] * epsilon or response_delta(epsilon, int(k[i]), exact[i] * (1 - 1e-6)) > 1e-4
        ends = 2 * log(1e4) / (exp(epsilon) - 1) ** 2
        assert n[f"proven to k, ε = {epsilon:g}"] == pytest.approx(ends, rel=1e-12)
        inside = k <= ends
        assert (n["as printed"] >= n[f"exact, ε = {epsilon:g}"])[inside].all(), "the short form holds under its hypothesis"


def test_composition_10000_shows_that_the_printed_line_is_no_bound() -> None:
    n = numbers("composition-10000")
    below = n["as printed"] < n["exact, ε = 1"]
    assert below[-1]
    assert not below[n["k"] <= 100].any()
    assert n["exact, ε = 1"][-1] > 5 * n["as printed"][-1]
    assert not (n["as printed"] < n["exact, ε = 0.01"]).any()


def test_averaging() -> None:
    n = numbers("averaging")
    k, answers = n["k"], n["answers"]
    assert len(answers) == 500
    assert n["mean so far"] == pytest.approx([answers[:i].mean() for i in k], rel=1e-12)
    reach = np.arange(-200, 201)
    spread = sqrt((reach**2 * laplace_pmf(1, reach)).sum())
    assert n["spread of the mean"] == pytest.approx(spread / np.sqrt(k), rel=1e-12)
    assert np.abs(n["mean so far"] - 10).max() < 4
    assert abs(n["mean so far"][-1] - 10) < SIGMAS * spread / sqrt(500)
    assert n["certified"] == pytest.approx(311.767604639710743, rel=1e-6), (
        "a discrete Laplace of scale 1 is a response of ε = 1"
    )
    assert n["as printed"] == pytest.approx(214.597, abs=1e-3)
    assert n["as printed"] < n["certified"] < n["sequential"] == 500


# -- variants ---------------------------------------------------------------------------------------------------------------


def test_noise_l1() -> None:
    """The text's parameters: ε = 0.1 and k ≤ 10, so 100 at the end."""
    n = numbers("noise-l1")
    assert list(n["k"]) == list(range(1, 11))
    assert n["sequential"] == pytest.approx(n["k"] / 0.1, rel=1e-12)
    assert (n["sequential"] == n["vectorised"]).all()
    assert n["vectorised"][-1] == 100
    assert not (n["vectorised"] == np.sqrt(n["k"]) / 0.1).all(), "erratum 5: with the labels swapped it would be √k"
    assert FIGURES["noise-l1"].with_options(epsilon=1, k=100).numbers()["vectorised"][-1] == 100


def test_noise_l2() -> None:
    """The text's parameters: ε = 0.1, δ = 1e-5, k ≤ 100, so 2.16e7 at the end of the line as plotted."""
    n = numbers("noise-l2")
    k, delta = n["k"], 1e-5
    assert (k[0], k[-1]) == (1, 100)
    assert n["as plotted"][-1] == pytest.approx(2.16e7, rel=2e-3)
    assert n["as plotted"] == pytest.approx(16 * k * log(1e5) * log(1.25e5) / 0.01, rel=1e-12)
    assert n["sequential"] == pytest.approx(16 * k * log(2 / delta) * np.log(2.5 * k / delta) / 0.01, rel=1e-9)
    assert n["vectorised"] == pytest.approx(2 * k * log(1.25 / delta) / 0.01, rel=1e-9)
    for i in (0, len(k) - 1):
        sigma = sqrt(n["exact"][i] / k[i])
        assert gaussian_delta(sigma, 0.1) <= delta * (1 + 1e-9) < gaussian_delta(sigma * (1 - 1e-7), 0.1) * (1 + 1e-6)
    assert (n["exact"] < n["vectorised"]).all()
    assert n["exact"] == pytest.approx(k * n["exact"][0], rel=1e-9)
    assert (n["as plotted"] < n["sequential"]).all(), "erratum 4: the plot's noise is too little for its own derivation"
    assert n["sequential"] / n["vectorised"] == pytest.approx(8 * log(2e5) * np.log(2.5e5 * k) / log(1.25e5), rel=1e-9)


def test_variants() -> None:
    n = numbers("variants")
    k, sigma, delta = n["k"], 200, 1e-5
    at = {int(one): i for i, one in enumerate(k)}
    for releases, exact, classic, improved in (
        (100, 0.16004203445813212, 0.24118, 0.17751),
        (500, 0.3846923540510616, 0.54274, 0.42332),
    ):
        assert n["exact"][at[releases]] == pytest.approx(exact, rel=1e-9)
        assert n["zCDP"][at[releases]] == pytest.approx(classic, abs=5e-6)
        assert n["zCDP, improved"][at[releases]] == pytest.approx(improved, abs=5e-6)
    for order in (20, 60):
        line = order * k / (2 * sigma**2) + log(1 / delta) / (order - 1)
        assert n[f"RDP, α = {order}"] == pytest.approx(line, rel=1e-12)
        assert (n[f"RDP, α = {order}"] >= n["zCDP"] * (1 - 1e-12)).all()
    each = np.sqrt(2 * np.log(1.25 / (delta / (2 * k)))) / sigma
    long = each * np.sqrt(2 * k * log(2 / delta)) + k * each * np.expm1(each)
    assert n["advanced"] == pytest.approx(np.minimum(long, k * each), rel=1e-9)
    assert n["advanced"][-1] == pytest.approx(3.846, abs=5e-4)
    each_printed = sqrt(2 * log(1.25 / delta)) / sigma
    assert n["advanced, as printed"] == pytest.approx(2 * each_printed * np.sqrt(2 * k * log(1 / delta)), rel=1e-12)
    assert n["advanced, as printed"][-1] == pytest.approx(5.198, abs=5e-4)
    assert n["δ of the printed line at the end"] == pytest.approx(501 * delta, rel=1e-12), "erratum 10"
    assert n["moments, as in the code"] == pytest.approx(4 * np.sqrt(k * log(1 / delta)) / sigma, rel=1e-12)
    assert n["moments, as in the code"][-1] == pytest.approx(1.517, abs=5e-4)
    assert (n["exact"] <= n["zCDP, improved"]).all()
    assert (n["zCDP, improved"] <= n["zCDP"]).all()
    assert (n["zCDP"][1:] <= n["advanced"][1:]).all()


def test_variants_erratum_4() -> None:
    n = numbers("variants")
    assert n["α = 60 touches"] == pytest.approx(265, abs=1)
    assert n["α = 20 touches"] == pytest.approx(2551, abs=1)
    gap60, gap20 = (n[f"RDP, α = {order}"] - n["zCDP"] for order in (60, 20))
    nearest = n["k"][gap60.argmin()]
    assert 255 <= nearest <= 275
    assert gap60.min() < 1e-4 < 0.1 < gap20.min(), "α = 20 touches nothing in the figure"


def test_orders() -> None:
    n = numbers("orders")
    order, rho = n["α"], 500 / (2 * 200**2)
    assert list(order) == list(range(2, 101))
    assert n["classic"] == pytest.approx(order * rho + log(1e5) / (order - 1), rel=1e-12)
    improved = order * rho + (log(1e5) - np.log(order)) / (order - 1) + np.log(1 - 1 / order)
    assert n["improved"] == pytest.approx(improved, rel=1e-9)
    assert (n["best α, classic"], n["best α, improved"]) == (44, order[improved.argmin()])
    assert n["ε there, classic"] == pytest.approx(0.54274, abs=5e-6) == n["classic"].min()
    assert n["ε there, improved"] == n["improved"].min()
    assert n["exact"] == pytest.approx(0.3846923540510616, rel=1e-9)
    assert (n["exact"] <= n["improved"]).all()
    other = FIGURES["orders"].with_options(k=100).numbers()
    assert other["best α, classic"] != 44, "a mutant with another k is noticed"


def test_growth() -> None:
    n = numbers("growth")
    k = n["k"]
    assert (k[0], k[-1]) == (1, 1000)
    harmonic = np.array([mp.harmonic(int(one)) for one in k], float)
    assert n["Laplace, exact"] == pytest.approx(k * harmonic, rel=1e-12)
    assert n["Laplace, bound"] == pytest.approx(k * (np.log(k) + 1), rel=1e-12)
    sigma = 4.224679
    for i in (0, 10, len(k) - 1):
        most = mp.quad(lambda x, i=i: 1 - mp.erf(x / mp.sqrt(2)) ** int(k[i]), [0, 1, 2, 4, 8, 12])
        assert n["Gaussian, exact"][i] == pytest.approx(float(sqrt(k[i]) * sigma * most), rel=1e-5)
    assert (n["Gaussian, exact"] < n["Gaussian, bound"]).all()
    assert (n["Laplace, exact"] <= n["Laplace, bound"] * (1 + 1e-12)).all()
    first = int(n["Gaussian wins from, E max"])
    assert ((n["Gaussian, exact"] < n["Laplace, exact"]) == (k >= first)).all()
    assert n["Laplace, exact"][-1] / n["Laplace, exact"][-9] > 2 * n["Gaussian, exact"][-1] / n["Gaussian, exact"][-9]


def test_bad_set() -> None:
    n = numbers("bad-set")
    sigma = sqrt(2 * log(2e5))
    assert n["σ"] == pytest.approx(sigma, rel=1e-12)
    assert n["with"] == pytest.approx(stats.norm.pdf(n["y"], 0, sigma), rel=1e-9)
    assert n["without"] == pytest.approx(stats.norm.pdf(n["y"], -1, sigma), rel=1e-9)
    bad = float(n["bad from"])
    loss = log(stats.norm.pdf(bad, 0, sigma) / stats.norm.pdf(bad, -1, sigma))
    assert loss == pytest.approx(1, rel=1e-9), "the bad set begins where the privacy loss is ε"
    assert n["P(bad)"] == pytest.approx(stats.norm.sf(bad / sigma), rel=1e-9)
    assert n["least δ"] == pytest.approx(float(gaussian_delta(sigma, 1)), rel=1e-9)
    assert n["least δ"] < n["P(bad)"] < 1e-5 < n["P(|y| > printed)"] == pytest.approx(4.8e-4, rel=0.01)


def test_cells() -> None:
    n = numbers("cells")
    assert n["exact"].tolist() == [20, 32, 27, 9, 18, 40, 35, 10]
    assert (n["scale at ε"], n["scale at ε/8"]) == (1, 8)
    for scale, name in ((1, "ε"), (8, "ε/8")):
        a, error = exp(-1 / scale), float(n[f"error at {name}, 95%"])
        beyond = 2 * a ** (error + 1) / (1 + a)
        assert (1 - beyond) ** 8 >= 0.95 > (1 - beyond / a) ** 8
        assert 0 < np.abs(n[f"private at {name}"] - n["exact"]).max() < 3 * error


# -- the coin ---------------------------------------------------------------------------------------------------------------


def truth_of(epsilon: float) -> float:
    return e**epsilon / (1 + e**epsilon)


def distributions(n: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Values and probabilities of the three estimates, from scipy's binomial and a convolution."""
    heads = np.arange(n + 1)
    tossed = stats.binom.pmf(heads, n, 0.25)
    t = truth_of(0.5)
    reports = stats.binom.pmf(heads, n, 0.25 * t + 0.75 * (1 - t))
    reach = np.arange(-200, 201)
    noisy = np.convolve(tossed, laplace_pmf(2, reach))
    return {
        "open": (heads / n, tossed),
        "response": ((heads - n * (1 - t)) / (2 * t - 1) / n, reports),
        "laplace": (np.arange(-200, n + 201) / n, noisy),
    }


def deviation(values: np.ndarray, pmf: np.ndarray) -> float:
    centre = (values * pmf).sum()
    return float(sqrt((pmf * (values - centre) ** 2).sum()))


def test_coin_sd() -> None:
    n = numbers("coin-sd")
    assert tuple(n["n"]) == SIZES == (50, 100, 200, 500, 1000, 2000, 5000)
    for i, size in enumerate(SIZES):
        for name, (values, pmf) in distributions(size).items():
            exact = deviation(values, pmf)
            line = float(np.interp(log(size), np.log(n["line n"]), n[f"{name}, exact"]))
            assert line == pytest.approx(exact, rel=2e-3), "the lines are exact"
            seen = n[f"{name}, simulated"][i]
            assert abs(seen / exact - 1) < SIGMAS * sqrt(1 / RUNS), "the deviation of a deviation, kurtosis up to 5"
    assert n["laplace, simulated"][0] > 1.2 * n["open, simulated"][0]
    assert n["response, simulated"][-1] > 4 * n["laplace, simulated"][-1]
    mutant = sqrt(0.25 * 0.75 / 50)  # without noise
    assert abs(n["response, simulated"][0] / mutant - 1) > 1


def test_coin_histogram() -> None:
    n = numbers("coin-histogram")
    for name, (values, pmf) in distributions(100).items():
        edges = n[f"{name}, edges"]
        shares = n[name] * np.diff(edges)
        expected = np.histogram(values, edges, weights=pmf)[0]
        assert shares.sum() == pytest.approx(1, abs=2e-3)
        assert max_deviation(shares, expected, RUNS) < SIGMAS
        assert max_deviation(shares, np.roll(expected, 2), RUNS) > SIGMAS, "a shifted mutant is noticed"
    assert n["open"].max() > n["laplace"].max() > 3 * n["response"].max()


# -- others -----------------------------------------------------------------------------------------------------------------


def test_exp_bounds() -> None:
    n = numbers("exp-bounds")
    x = n["x"]
    truth = np.array([float(mp.e**point) for point in x])
    assert n["e^x"] == pytest.approx(truth, rel=1e-15)
    assert n["e^x from below"] == pytest.approx(truth, rel=1e-15)
    assert n["e^x from above"] == pytest.approx(truth, rel=1e-15)
    assert (n["1 + x"] <= truth + 1e-15).all()
    assert ((n["1 + x"] == n["e^x"]) == (np.abs(x) < 1e-9)).all(), "erratum 7: equality at 0, and only there"
    for name, guess in (("1 + x + x²", 1.8), ("1 + 2x", 1.25)):
        bound = (lambda y: 1 + y + y * y) if "²" in name else (lambda y: 1 + 2 * y)
        root = mp.findroot(lambda y, bound=bound: mp.e**y - bound(y), guess)
        assert n[f"{name} holds to"] == pytest.approx(float(root), rel=1e-12)
        inside = (x >= 0) & (x <= float(root))
        assert (n[name][inside] >= truth[inside] - 1e-12).all()
        assert (n[name][x > float(root)] < truth[x > float(root)]).all(), "beyond it the bound does not hold"
    assert (n["1 + x + x²"][x < 0] >= truth[x < 0]).all()


def test_k_anonymity() -> None:
    n = numbers("k-anonymity")
    for table, least in (("first", 4), ("second", 6)):
        known = [tuple(row[:3]) for row in n[table].tolist()]
        assert min(known.count(row) for row in known) == least == n[f"k of the {table}"]
    of_28 = [{row[3] for row in n[t].tolist() if row[1] == age} for t, age in (("first", "<30"), ("second", "<35"))]
    assert set(n["possible by both"].tolist()) == of_28[0] & of_28[1] == {"AIDS"}
    assert min(map(len, of_28)) > 1, "neither table alone reveals it"
    thirties = {row[3] for row in n["first"].tolist() if row[1] == "3*"}
    assert thirties == {"Cancer"}, "but the first table alone reveals the thirties"
    assert n["groups with one condition"].tolist() == ["3*: Cancer"]
    assert "Broken leg" in n["absent from the first"]
    assert not set(n["absent from the first"].tolist()) & {row[3] for row in n["first"].tolist()}


def test_training() -> None:
    n = numbers("training")
    mean, exact, commoner = n["private, mean of 15 runs"], n["without noise"][0], n["always the commoner answer"][0]
    assert commoner < exact - 0.05, "there is something to learn"
    assert mean[-1] > exact - 0.02, "ε = 10 is as good as no noise"
    assert mean[0] < exact - 0.1, "ε = 0.02 is not"
    assert (np.diff(mean) > -0.02).all()
    assert (n["worst run"] <= mean).all()


def test_training_pays_what_it_says() -> None:
    delta = Fraction(1, 10**6)
    for epsilon in EPSILONS:
        sigma = training_sigma(epsilon, delta, 30)
        paid = certified(Gaussian(sigma).event(1) * 30, delta)
        assert paid.upper == pytest.approx(epsilon, rel=1e-5)
        assert certified(Gaussian(sigma / sqrt(30)).event(1) * 30, delta).lower > epsilon, "σ for one step is too little"


def test_the_gradients_of_training_are_clipped() -> None:
    """One more person, however far off, moves the sum of truncated gradients by at most the clipping norm."""
    people, answers = _invent_people(50, seeded_bits(1))
    step = RATE * CLIP / GRID
    without = _train(people, answers, 1, 0, 1, seeded_bits(1)) * len(people)
    for answer in (0.0, 1.0):
        more, said = np.vstack([people, np.full(5, 1e6)]), np.append(answers, answer)
        moved = (_train(more, said, 1, 0, 1, seeded_bits(1)) * len(more) - without) / step
        assert 0.5 * GRID < np.linalg.norm(moved) <= GRID * (1 + 1e-9)


def test_every_figure_has_a_test() -> None:
    names = "laplace-gaussian composition-100 composition-10000 averaging noise-l1 noise-l2 variants indistinguishable " \
        "laplace-densities coin-sd coin-histogram exp-bounds k-anonymity orders growth bad-set cells training"  # fmt: skip
    assert list(FIGURES) == names.split()
    tested = {name for name in globals() if name.startswith("test_")}
    for name in FIGURES:
        assert any(f"test_{name.replace('-', '_')}".startswith(test) for test in tested)
