"""The rules of an account, without a place to keep it: what is charged, what fits, what a refusal proposes.

An account is opened once, with a budget and one currency, and keeps both for life. A parent
of the same currency caps the sum of its children: paying a child pays the parent too, or neither.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import inf

from discreet.accounting.curve import epsilon as certified
from discreet.accounting.filters import Currency, Filter, Pure, price, rounded_up
from discreet.errors import BadParameter, BudgetExceeded
from discreet.exact import Number, open_unit, rational, read_decimal
from discreet.ledger.budget import budget, epsilon_that_fits
from discreet.loss import Loss, compose

LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Account:
    """A named budget and what was spent of it. Paying makes a new account.

    >>> from discreet.loss import Claim
    >>> hr = Account.open("hr", 1)
    >>> half = Claim(Fraction(1, 2), Fraction(0))
    >>> hr.after(half).after(half).kept.left
    Fraction(0, 1)
    >>> hr.after(half).after_plan([half, half])
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: this costs 1 (ε) but 0.5 is left; epsilon=0.5 would fit
    """

    name: str
    kept: Filter
    delta: Fraction  # at which the budget promises its ε
    parent: "Account | None" = None
    debits: int = 0  # its own, not those of its children
    whose: str = ""  # whose rows its debits, and its children's, speak of, and in which change; "" as long as none has said

    @classmethod
    def open(
        cls,
        name: str,
        epsilon: Number,
        delta: Number = 0,
        currency: Currency | None = None,
        parent: "Account | None" = None,
    ) -> "Account":
        """An account with nothing spent."""
        return cls(proper(name, "account"), budget(epsilon, delta, currency), read_decimal(delta, "delta"), parent).placed()

    def placed(self) -> "Account":
        """The same, if its parent may have such a child."""
        above = self.parent
        if above is not None and above.kept.currency != self.kept.currency:
            raise BadParameter(
                "parent", repr(above.name), "it has another currency", "open the child in its parent's currency"
            )
        return self

    def charge(self, loss: Loss, at: Number = 0) -> tuple[Fraction, Fraction]:
        """What a loss costs here, and its leak; both rounded up. It is refused if it has no price in this currency.

        `at` is for plans in a pure account only: their certified ε at that δ, which the account's δ then pays.
        """
        amount, leak = price_at(self.kept.currency, loss, read_decimal(at, "at"))
        if amount == inf:
            self.kept.paid(amount, leak)  # raises
        return rounded_up(rational(amount)), rounded_up(leak)

    def paid(self, amount: Fraction, leak: Fraction, whose: str = "") -> "Account":
        """The account, and its parents, once a known price is paid; refused, and unchanged, if it does not fit in all."""
        return replace(self._lessened(amount, leak, whose), debits=self.debits + 1)

    def _lessened(self, amount: Fraction, leak: Fraction, whose: str) -> "Account":
        above = None if self.parent is None else self.parent._lessened(amount, leak, whose)
        bound = one_whose(self.whose, whose, self.name)
        return replace(self, kept=self.kept.paid(amount, leak).short(), parent=above, whose=bound)

    def after(self, loss: Loss, at: Number = 0) -> "Account":
        """The account once `loss` is paid, or a refusal that says what would fit."""
        try:
            return self.paid(*self.charge(loss, at))
        except BudgetExceeded as refused:
            raise self.way_out(refused) from None

    def after_plan(self, losses: Iterable[Loss], at: Number = 0) -> "Account":
        """One entry for several measurements whose noise was fixed before the first answer."""
        return self.after(compose(*losses), at)

    def way_out(self, refused: BudgetExceeded) -> BudgetExceeded:
        """The same refusal with the largest ε that still fits here and in every parent."""
        fitting = min(epsilon_that_fits(account.kept, account.delta) for account in self.line)
        return BudgetExceeded(refused.currency, asked=refused.asked, left=refused.left, fitting=fitting)

    @property
    def line(self) -> "tuple[Account, ...]":
        """The account, its parent, and so on."""
        return (self,) if self.parent is None else (self, *self.parent.line)


@lru_cache(maxsize=1024)
def price_at(currency: Currency, loss: Loss, at: Fraction = Fraction(0)) -> tuple[Fraction | float, Fraction]:
    """What a loss costs in a currency, and its leak; with `at`, in a pure account, the certified point at that δ."""
    if at != 0 and isinstance(currency, Pure):
        return certified(loss, open_unit(at, "at")).upper, at
    return price(currency, loss)


def one_whose(bound: str, whose: str, name: str) -> str:
    """Whose rows an account speaks of, once it has paid for these. It keeps to one unit and one change for life: what was
    paid for one person's rows says nothing of a household's, and a replaced person is one removed and one added, so a sum
    over several kinds of neighbours promises nothing to any of them."""
    if bound and whose and bound != whose:
        raise BadParameter(
            "account", repr(name), f"it has paid for ({bound}) and keeps to that, and this is ({whose})", "open another one"
        )
    return bound or whose


def proper(text: str, what: str) -> str:
    """A name or an id that every store can hold."""
    if not text or len(text) > LONGEST_NAME or not text.isprintable() or text != text.strip():
        raise BadParameter(
            what, repr(text[:40]), "not a name", f"take 1 to {LONGEST_NAME} printable characters without blanks around them"
        )
    return text
