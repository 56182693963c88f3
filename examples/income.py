"""Who earns above 50K? Two classifiers of a census-like file, fitted and scored with differential privacy.

    python examples/income.py [FILE]

FILE has the columns that `invent_people` writes; without it, 20,000 people are invented. A budget of ε = 4 at δ = 1e-6 pays
for two fits on four fifths of the people, and for the accuracy of both on the others.
"""

import csv
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from discreet import connect
from discreet.learn import Additive, LogisticRegression, release_metrics

PEOPLE = 20_000
NUMBERS = {"age": (17, 90), "education_num": (1, 16), "capital_gain": (0, 10_000), "hours_per_week": (1, 99)}
CATEGORIES = {"marital_status": ["Never-married", "Married", "Divorced", "Widowed"], "sex": ["Female", "Male"]}
INCOME = ["<=50K", ">50K"]


def invent_people(path: Path, people: int = PEOPLE) -> None:
    """Write people of the shape of the Adult data set: income rises with education, hours, marriage, and age up to fifty."""
    draw = np.random.default_rng(1)
    age = draw.integers(17, 91, people)
    education = np.clip(draw.normal(10, 2.6, people).round(), 1, 16).astype(int)
    hours = np.clip(draw.normal(40, 12, people).round(), 1, 99).astype(int)
    gain = np.where(draw.random(people) < 0.08, draw.integers(1, 10_001, people), 0)
    married = draw.choice(CATEGORIES["marital_status"], people, p=[0.33, 0.47, 0.14, 0.06])
    sex = draw.choice(CATEGORIES["sex"], people)
    score = 0.5 * (education - 10) + 0.05 * (hours - 40) + 1.8 * (married == "Married") + 0.0004 * gain
    odds = score + 0.4 * (sex == "Male") - 0.0022 * (age - 50) ** 2 - 2.0
    income = np.where(draw.random(people) < 1 / (1 + np.exp(-odds)), ">50K", "<=50K")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("id", *NUMBERS, *CATEGORIES, "income"))
        writer.writerows(zip(range(people), age, education, gain, hours, married, sex, income, strict=True))


def main(source: str | Path) -> dict[str, float]:
    """Fit both models, print what they found and what it cost, and return the released accuracy of each."""
    people = connect(
        source, unit="id", unique=True, bounds=NUMBERS, keys={**CATEGORIES, "income": INCOME}, epsilon=4, delta=1e-6
    )
    train, test = people.records(*NUMBERS, *CATEGORIES, target="income").split("1/5")
    accuracies = {}
    for model in (LogisticRegression(epsilon=1, expected=16_000), Additive(epsilon=1, expected=16_000)):
        name = type(model).__name__
        model.fit(train)
        found = release_metrics(model, test, metrics=("accuracy",), epsilon=0.5)
        accuracies[name] = float(found["accuracy"].value)
        print(f"{name}: accuracy {found['accuracy']} on people whom it was not fitted on.")
        if isinstance(model, LogisticRegression):
            for column, weight, error in zip(model.coef_names_, model.coef_[0], model.coef_errors_[0], strict=True):
                print(f"  {column:32} {weight:9.4f} ± {error:.4f}")
    print(people.budget)
    return accuracies


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with TemporaryDirectory() as folder:
            invent_people(Path(folder) / "people.csv")
            main(Path(folder) / "people.csv")
