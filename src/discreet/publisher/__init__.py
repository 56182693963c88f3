"""A whole publication at once: several questions whose noise is fixed together, paid as one plan, written as one folder.

`workload` says what is wanted, `read` reads it from TOML, `solve` finds the prices, `outlook` says what they buy at three
budgets, `pay` pays once and looks at each question, `publication`, `card` and `pictures` write what a reader gets.
"""

from discreet.publisher.publication import Published, publish
from discreet.publisher.read import read_plan
from discreet.publisher.solve import Solved, solve
from discreet.publisher.workload import Asked, Workload

__all__ = ["Asked", "Published", "Solved", "Workload", "publish", "read_plan", "solve"]
