"""What ε and δ mean, and the properties that follow from the definition: exercises of [S4, sec. 3], [B2], [L12] and [N1]."""

from fractions import Fraction
from math import exp, log, sqrt

from discreet.accounting.basic import Point
from discreet.accounting.divergences import GaussianAt, hockey_stick
from discreet.accounting.risk import advantage
from discreet.accounting.textbook import bad_set_mass, group_privacy, outcome_range, parallel_composition
from discreet.errors import BadParameter
from discreet.events import Claim
from discreet.lab.exercises.exercise import Exercise, Solution
from discreet.lab.figures.composition import COUNTS
from discreet.lab.parameters import format_value
from discreet.mechanisms import Laplace
from discreet.mechanisms.unsafe import NameAndShame, at_least_once
from discreet.testing import seeded_bits
from discreet.units import Neighbours, proportion

ONE, NOTHING = Fraction(1), Fraction(0)


def outcomes(epsilon: float = log(1.25), first: float = 0.2, second: float = 0.5) -> Solution:
    """Compute the range of P'(E), given P(E) and ε.

    >>> outcomes().answer
    'P = 0.2 → [0.16, 0.25]; P = 0.5 → [0.4, 0.6]'
    """
    ranges = {p: outcome_range(epsilon, p) for p in (first, second)}
    return Solution(
        ("E is bounded by e^ε·P and e^−ε·P; so is its complement, and the tighter of the two bounds counts.",
         f"e^ε = {exp(epsilon):.4g}"),
        "; ".join(f"P = {p:g} → [{r.lower:.4g}, {r.upper:.4g}]" for p, r in ranges.items()),
        {f"P = {p:g}": [r.lower, r.upper] for p, r in ranges.items()},
        tuple(end for p in (first, second) for end in (ranges[p].lower, ranges[p].upper)),
        {"that is P·(1 − (e^ε − 1)). Divide by e^ε.": first * (2 - exp(epsilon))},
    )  # fmt: skip


def output_by_output(epsilon: Fraction = Fraction(1, 2), truth: Fraction = Fraction(3, 4)) -> Solution:
    """Prove that pure privacy is checked output by output, and compute the least δ of a randomised response."""
    if not Fraction(1, 2) < truth < 1:
        raise BadParameter("truth", float(truth), "must lie between 1/2 and 1", "give a probability such as 0.75")
    honest, flipped = [truth, 1 - truth], [1 - truth, truth]
    least, bad = hockey_stick(honest, flipped, epsilon).upper, float(bad_set_mass(honest, flipped, epsilon))
    return Solution(
        ("(1) If P(o) ≤ e^ε·P'(o) for every output o, add these up over the outputs of an event E: P(E) ≤ e^ε·P'(E). The "
         "other "
         "way round, take E = {o}.",
         "(2) For any E, P(E) − e^ε·P'(E) = Σ_{o in E} (P(o) − e^ε·P'(o)) ≤ Σ_o max(0, P(o) − e^ε·P'(o)), with equality for "
         "the E of all o with P(o) > e^ε·P'(o). So that sum is the least δ.",
         "(3) A δ for single outputs is not enough: P and P' uniform on two disjoint sets of n outputs differ by 1/n on "
         "each "
         "output, and δ = 1.",
         f"(4) Here only the true answer has P > e^ε·P': δ = {float(truth):g} − e^{float(epsilon):g}·{float(1 - truth):g}"),
        f"δ = {least:.4g}",
        {"least δ": least, "P(loss > ε)": bad},
        (least,),
        {"that is P(privacy loss > ε). The sum has only what exceeds e^ε·P'.": bad},
    )  # fmt: skip


def post_processing(epsilon: Fraction = ONE, delta: Fraction = Fraction(1, 10**6)) -> Solution:
    """Prove that a function which does not read the data keeps the guarantee."""
    return Solution(
        ("Let M be (ε, δ)-private, f a function that does not read the data, and T a set of values of f.",
         "(1) Let S = {o : f(o) in T}. Then P(f(M(D)) in T) = P(M(D) in S) ≤ e^ε·P(M(D') in S) + δ = e^ε·P(f(M(D')) in "
         "T) + δ.",
         "(2) If f is random, it is a function f(o, r) of randomness r that is independent of the data: (1) holds for "
         "every r, "
         "and so does its average over r.",
         "(3) Rounding and clamping are such functions. A function that looks at the data again is not, and may lose it "
         "all."),
        f"ε = {format_value(epsilon)}, δ = {format_value(delta)}, as before",
        {"epsilon": float(epsilon), "delta": float(delta)},
        (float(epsilon), float(delta)),
        {"each step would then cost again. Only looking at the data costs.": 3 * float(epsilon)},
    )  # fmt: skip


def sequential(k: int = 3, epsilon: Fraction = Fraction(1, 2), delta: Fraction = Fraction(1, 10**6)) -> Solution:
    """Prove basic composition, also for adaptive choices."""
    return Solution(
        ("δ = 0 first. Let M₂ be chosen after the output o₁ of M₁.",
         "(1) P(o₁, o₂) = P(o₁)·P(o₂ | o₁) ≤ e^ε₁·P'(o₁)·e^ε₂·P'(o₂ | o₁) = e^(ε₁+ε₂)·P'(o₁, o₂), for every o₁, so the "
         "choice of "
         "M₂ may depend on it. Output by output is enough [S4, ex. 3.3]; by induction k of them cost Σε.",
         "(2) δ > 0: for an event E let E(o₁) be its second outputs after o₁. P(E(o₁) | o₁) ≤ min(1, e^ε₂·P'(E(o₁) | "
         "o₁)) + δ₂.",
         "(3) Average over o₁ ~ P. The first part is a function of o₁ between 0 and 1, to which the guarantee of M₁ "
         "applies: its "
         "average is at most e^ε₁·(average over P') + δ₁. Together: P(E) ≤ e^(ε₁+ε₂)·P'(E) + δ₁ + δ₂."),
        f"ε = {format_value(k * epsilon)}, δ = {format_value(k * delta)}",
        {"epsilon": float(k * epsilon), "delta": float(k * delta)},
        (float(k * epsilon), float(k * delta)),
        {"basic composition adds ε up; √k needs advanced composition and more δ.": sqrt(k) * float(epsilon)},
    )  # fmt: skip


def group(size: int = 3, epsilon: Fraction = ONE, delta: Fraction = Fraction(1, 10**6)) -> Solution:
    """Prove group privacy and compute the δ of a group."""
    point = group_privacy(Point(epsilon, delta), size)
    terms = " + ".join(["1", "e^ε", "e^2ε", "…"][: min(size, 3) + (size > 3)])
    return Solution(
        (f"Let D₀, …, D_{size} be tables, each a neighbour of the next.",
         "(1) P₀(E) ≤ e^ε·P₁(E) + δ ≤ e^ε·(e^ε·P₂(E) + δ) + δ = e^2ε·P₂(E) + δ(1 + e^ε).",
         "(2) By induction P₀(E) ≤ e^Kε·P_K(E) + δ(1 + e^ε + … + e^((K−1)ε)).",
         "(3) Each of the K terms is at most e^Kε, so δ_K ≤ K·e^Kε·δ.",
         f"(4) K = {size}: δ·({terms}) = {float(point.delta):.4g}"),
        f"δ = {format_value(point.delta)} at ε = {format_value(point.epsilon)}",
        {"epsilon": float(point.epsilon), "delta": float(point.delta), "bound": size * exp(size * epsilon) * float(delta)},
        (float(point.delta), float(point.epsilon)),
        {"that is K·δ: each further δ is multiplied by e^ε.": float(size * delta),
         "that is the coarser bound K·e^Kε·δ.": size * exp(size * epsilon) * float(delta)},
    )  # fmt: skip


def cells(epsilon: Fraction = ONE) -> Solution:
    """Compute the cost of counts by gender and hair colour, by parallel composition: the cells are disjoint."""
    exact = [count for row in COUNTS for count in row]
    every = [Point(epsilon, NOTHING)] * len(exact)
    add_remove = float(parallel_composition(*every).epsilon)
    replace = float(parallel_composition(*every, neighbours=Neighbours.REPLACE, inside=Point(NOTHING, NOTHING)).epsilon)
    noisy = Laplace.for_epsilon(epsilon, sensitivity=1).release(exact, seeded_bits(8))
    return Solution(
        (f"exact, not private: {_format_table(exact)}",
         f"each count with Laplace noise of scale {float(1 / epsilon):g}: {_format_table(noisy)}",
         "One person is in one cell. Added or removed, that person changes one count: P(all eight) changes by the factor of "
         "that one count, at most e^ε.",
         "Replaced, the person leaves one cell and enters another: two counts change, 2ε.",
         f"sequential composition would give {float(epsilon) * len(exact):g}"),
        f"{add_remove:g} if one person is added or removed, {replace:g} if one is replaced",
        {"cells": len(exact), "add or remove": add_remove, "replace": replace, "exact": exact, "private": list(noisy)},
        (add_remove, replace),
        {"that is 8ε, sequential composition. One person is in one cell.": float(epsilon) * len(exact),
         "that is the cost if one person is replaced. The first number is for adding or removing one.": replace},
    )  # fmt: skip


def _format_table(values: list[int]) -> str:
    return "; ".join(", ".join(str(value) for value in values[start : start + 4]) for start in (0, 4))


def rules_of_thumb(n: int = 10_000) -> Solution:
    """Compute why ε = 0.1 is strong, ε = 1 good and ε = 1/n useless, and why δ is far below 1/n."""
    advantages = {eps: advantage(Claim(Fraction(eps), NOTHING)).upper for eps in (0.1, 1.0, 10.0)}
    whole_table = group_privacy(Point(Fraction(1, n), NOTHING), n)
    useless = advantage(Claim(Fraction(whole_table.epsilon), NOTHING)).upper
    deltas = {"1/n": Fraction(1, n), "1/n²": Fraction(1, n * n)} if n > 1 else {}
    exposed = {name: NameAndShame(delta).expected_exposures(n) for name, delta in deltas.items()}
    return Solution(
        (*(f"ε = {eps:g}: membership inference has an advantage (true- minus false-positive rate) of at most {by:.4g}"
           for eps, by in advantages.items()),
         f"ε = 1/n: replacing all {n:,} people costs ε = {float(whole_table.epsilon):g}; any two tables are told apart with "
         f"an advantage of at most {useless:.3f}, so little can be learned",
         *(f"δ = {name}: naming each person with probability δ is allowed, and exposes {people:g} of them on average"
           for name, people in exposed.items())),
        "ε of 0.1 to 1, above 1/n; δ at most 1/n²",
        {"advantage": {f"{eps:g}": by for eps, by in advantages.items()}, "between any two tables": useless,
         "exposed": exposed},
        (advantages[1.0], exposed.get("1/n", 1.0)),
        {"that is the probability of a right guess, e^ε/(1 + e^ε); the advantage is 2p − 1.": exp(1) / (1 + exp(1))},
    )  # fmt: skip


def least_epsilon(n: int = 10_000) -> Solution:
    """Compute the noise of a proportion at ε = 1/n: standard deviation √2, whatever n is."""
    scale = proportion(n).l1
    if scale is None:
        raise AssertionError("a proportion has an l1 sensitivity")
    width = float(scale / Fraction(1, n))
    return Solution(
        (f"One person moves a proportion of {n:,} people by Δ = 1/n (replaced at a public n).",
         "At ε = 1/n the scale is λ = Δ/ε = 1, and the standard deviation √2·λ = √2.",
         "The proportion itself lies between 0 and 1: the answer says next to nothing, however many people there are.",
         "In general: all n people together are a group, and nε = 1 bounds what any answer says about the whole table."),
        "√2 = 1.414",
        {"scale": width, "standard deviation": sqrt(2) * width},
        (sqrt(2) * width,),
        {"that is the scale λ; the standard deviation of Laplace noise is √2·λ.": width},
    )  # fmt: skip


def no_promise(epsilon: float = 0.5, n: int = 10_000) -> Solution:
    """Compute what a study that finds smokers to be ill changes for Anna, who smokes, with and without her data."""
    noise = Laplace.for_epsilon(epsilon, sensitivity=1)
    ill = 3 * n // 10
    with_her, without_her = (noise.release(people, seeded_bits(31)) / n for people in (ill + 1, ill))
    return Solution(
        ("Before the study the risk of a smoker was believed to be 1%.",
         f"After it: {with_her:.4f} if Anna took part, {without_her:.4f} if she did not.",
         f"Her participation changed the probability of any conclusion by a factor of at most e^{epsilon:g}; the study "
         "itself changed the estimate of her risk, and her premium, thirtyfold.",
         "If her smoking was known before, it still is.",
         "Whether the study should be made at all is not a question of ε."),
        "no privacy where there was none, no freedom from harm, no policy",
        {"before": 0.01, "with her": with_her, "without her": without_her, "factor": exp(epsilon)},
        (exp(epsilon),),
        {"the factor is e^ε, not 1 + ε.": 1 + epsilon},
    )  # fmt: skip


def good_and_bad(epsilon: Fraction = ONE, delta: Fraction = Fraction(1, 10**5)) -> Solution:
    """Prove the good/bad-set lemma and apply it to Gaussian noise with the σ of [L12]."""
    eps, at = float(epsilon), float(delta)
    sigma = sqrt(2 * log(2 / at)) / eps
    threshold = sigma**2 * eps - 0.5
    pair = GaussianAt(0, sigma), GaussianAt(-1, sigma)
    bad, least = float(bad_set_mass(*pair, epsilon)), hockey_stick(*pair, epsilon).upper
    return Solution(
        ("Let B be the outputs whose privacy loss ln(p/p') exceeds ε, and G all others.",
         "(1) On G, p ≤ e^ε·p', so P(E ∩ G) ≤ e^ε·P'(E ∩ G) ≤ e^ε·P'(E).",
         "(2) P(E) = P(E ∩ G) + P(E ∩ B) ≤ e^ε·P'(E) + P(B). If P(B) ≤ δ, this is (ε, δ)-privacy.",
         "(3) It is sufficient only: the least δ subtracts e^ε·P'(B) (erratum 8).",
         "(4) Gaussian noise y on a count that one person changes by 1: the loss is (2y + 1)/2σ², which exceeds ε for "
         f"y > σ²ε − 1/2 = 2·ln(2/δ)/ε − 1/2 = {threshold:.4g}, where σ = √(2·ln(2/δ))/ε = {sigma:.4g}.",
         f"(5) P(B) = {bad:.3g}, below δ = {at:g}; the least δ is {least:.3g}."),
        f"y > {threshold:.4g}, with probability {bad:.3g}",
        {"sigma": sigma, "threshold": threshold, "P(bad)": bad, "least δ": least},
        (threshold, bad),
        {"that is √2·ln(2/δ)/ε, as printed: see erratum 14.": sqrt(2) * log(2 / at) / eps},
    )  # fmt: skip


def catastrophe(delta: Fraction = Fraction(1, 1000), releases: int = 2_000) -> Solution:
    """Compute how often a catastrophe happens in many releases."""
    once = at_least_once(delta, releases)
    return Solution(
        ("One release: all the data with probability δ, otherwise q(x) + Lap(s/ε).",
         "(1) It is (ε, δ)-private: P(E) ≤ δ + (1 − δ)·e^ε·L'(E) ≤ e^ε·P'(E) + δ, L the distribution of the noisy query.",
         "(2) In RDP and zCDP it costs ∞, however small δ is: the output that is the data has probability 0 under a "
         "neighbour.",
         f"(3) {releases:,} releases: 1 − (1 − δ)^{releases:,} = {once:.4g}, and Σδ = {float(releases * delta):g} bounds "
         "it."),
        f"{once:.4g}",
        {"at least once": once, "sum of δ": float(releases * delta)},
        (once,),
        {"that is the sum of the δ, an upper bound.": float(releases * delta), "that is δ, of one release.": float(delta)},
    )  # fmt: skip


def neighbours(n: int = 100, bound: Fraction = Fraction(100)) -> Solution:
    """Compare the variants of the definition: multisets, fixed size, and graphs."""
    top = float(bound)
    return Solution(
        ("multiset, one person added or removed [B2]: a count 1, a histogram 1, a sum on [0, R] R; the number of people is "
         "protected too, so a mean has no fixed n",
         "fixed size, one person replaced [S4]: a count 1, a histogram 2, a sum on [0, R] R; n is public, a mean on [0, "
         "R] R/n = "
         f"{top / n:g}",
         "Replacing is removing and adding: ε-private for add/remove is 2ε-private for replace.",
         "graph, one edge added or removed (edge privacy): the number of edges changes by 1; a relation is hidden, not a "
         "person",
         f"graph, one node with all its edges (node privacy): the number of edges of {n:,} nodes changes by up to n − 1 = "
         f"{n - 1:,}; a person is hidden with all relations",
         "In every variant the algorithm, ε and δ may be public: the guarantee rests on the randomness of the noise alone."),
        f"edges: 1 by edge, {n - 1:,} by node; a mean under replace {top / n:g}",
        {"edge": 1, "node": n - 1, "histogram": {"add-remove": 1, "replace": 2}, "mean": top / n},
        (1.0, float(n - 1), top / n),
        {},
    )  # fmt: skip


DEFINITION = (
    Exercise(
        "outcome-range", "S4, ex. 3.4",
        "ε = {epsilon} (ln 1.25 in the text), and an event has probability {first}, or {second}. What can it be if one "
        "person's record changes?",
        "the least and the largest probability for the first, then for the second",
        "Bound the event and its complement by e^ε, and take the tighter bound.", outcomes,
    ),
    Exercise(
        "output-by-output", "S4, ex. 3.3",
        "Prove: with finitely many outputs, ε-privacy can be checked output by output, and the least δ at ε is the sum of "
        "max(0, P(o) − e^ε·P'(o)). What is it for a randomised response with truth {truth} at ε = {epsilon}?",
        "the least δ", "Which event makes P(E) − e^ε·P'(E) largest?", output_by_output,
    ),
    Exercise(
        "post-processing", "B2, exercise!",
        "Prove that a function which does not read the data keeps (ε, δ). A count at ε = {epsilon}, δ = {delta} is "
        "rounded to "
        "tens, clamped to [0, 100] and printed. What are ε and δ of what is printed?",
        "ε and δ", "Which outputs of the mechanism lead into a set T of printed results?", post_processing,
    ),
    Exercise(
        "sequential-composition", "B2",
        "Prove that ε and δ add up, also if each mechanism is chosen after the last answer. What do {k} answers at "
        "ε = {epsilon}, δ = {delta} cost?",
        "ε and δ", "Condition on the first output.", sequential,
    ),
    Exercise(
        "group-privacy", "B2, exercise!",
        "Prove that a group of K has Kε and δ(1 + e^ε + … + e^((K−1)ε)). What is δ for K = {size}, ε = {epsilon}, δ = "
        "{delta}?",
        "δ of the group, then its ε", "Go from one table to the other in K steps, and apply the definition at each.", group,
    ),
    Exercise(
        "gender-and-hair", "B2",
        "Counts by gender and hair colour, 2 × 4 cells: 20, 32, 27, 9; 18, 40, 35, 10. Each is released at ε = "
        "{epsilon}. What "
        "do they cost together?",
        "ε if one person is added or removed, then if one is replaced", "How many counts does one person change?", cells,
    ),
    Exercise(
        "rules-of-thumb", "B2, S4, N1",
        "Which ε and δ are good ones? In numbers: which advantage does ε = 1 allow a membership inference, and how many "
        "of {n} "
        "people does name-and-shame expose on average at δ = 1/n?",
        "the advantage at ε = 1, then the people exposed", "The advantage is the true- minus the false-positive rate.",
        rules_of_thumb,
    ),
    Exercise(
        "least-epsilon", "S4, remark on ε = 1/n",
        "A proportion of {n} people is released with Laplace noise at ε = 1/n, one person replaced. What is the noise's "
        "standard "
        "deviation?",
        "the standard deviation", "How far does one person move a proportion?", least_epsilon,
    ),
    Exercise(
        "no-promise", "B2",
        "What does differential privacy not promise? In numbers: by which factor can Anna's participation in a study of "
        "{n} people "
        "at ε = {epsilon} change the probability of any conclusion?",
        "the factor", "The definition bounds a ratio of probabilities.", no_promise,
    ),
    Exercise(
        "good-and-bad", "L12, B2",
        "Prove the lemma of the good and the bad set. Gaussian noise with σ = √(2·ln(2/δ))/ε on a count, ε = {epsilon}, "
        "δ = {delta}: from which y on does the privacy loss exceed ε, and how probable is that?",
        "the threshold, then its probability", "Write ln of the ratio of the two densities.", good_and_bad,
    ),
    Exercise(
        "catastrophe", "N1",
        "With probability δ = {delta} all the data, otherwise q(x) + Lap(s/ε). How probable is it that {releases} "
        "releases contain "
        "a catastrophe?",
        "the probability", "How probable is it that none does?", catastrophe,
    ),
    Exercise(
        "neighbours", "S4, B2",
        "Which variants of the definition are there? In numbers: by how much does the number of edges of a graph with "
        "{n} nodes "
        "change if one edge, or one node, is added or removed; and a mean of {n} values in [0, {bound}], one replaced?",
        "by edge, by node, the mean", "A new node can be joined to every other one.", neighbours,
    ),
)  # fmt: skip
