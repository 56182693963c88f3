"""Wrong commands and calls, as people type them: every message names the thing, the flag or parameter, and the way out.

Each row is a command line, its exit code, words that the message must hold (the thing, the flag), and the way out. Rows do
not quote whole messages, so these can be rewritten.
"""

import json
import re
import shlex
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

import discreet
from discreet import connect
from discreet.cli.help import find_topic
from discreet.errors import PARAMETER_PAGES, BadParameter, DiscreetError
from discreet.ledger import open_ledger, sqlite
from tests.support.console import run
from tests.support.people_csv import write_people

COUNT = '"SELECT COUNT(*) AS n FROM people"'
ASK = f"ask people.csv {COUNT}"
BY_DEPT = 'ask people.csv "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"'
PAID = "--unit id --epsilon 1"
USAGE = "--help"
"""The way out of what typer refuses: the line that shows the help of the command."""

WRONG_COMMANDS: dict[str, list[tuple[str, int, str, str]]] = {
    "typos": [
        (f"aks people.csv {COUNT} {PAID}", 2, "aks", "ask"),
        ("ledger opne hr.ledger", 2, "opne", "open"),
        (f"{ASK} --unti id --epsilon 1", 2, "--unti", "--unit"),
        (f"{ASK} --unit idd --epsilon 1", 2, "--unit idd", "'id'"),
        (f"{ASK} --unit ID --epsilon 1", 2, "--unit ID", "'id'"),
        (f'ask people.csv "SELECT AVG(pya) AS m FROM people" {PAID}', 2, "pya", "`pay`"),
        (f'ask people.csv "SELECT AVRAGE(pay) AS m FROM people" {PAID} --bounds pay=0:9', 2, "AVRAGE", "AVG"),
        (f'ask people.csv "SELECT COUNT(*) AS n FROM peple" {PAID}', 2, "peple", "people"),
        (f'ask people.csv "SELECT COUNT(*) AS n FORM people" {PAID}', 2, "`FORM`", "mean FROM instead of `FORM`"),
        (f"{ASK} {PAID} --bounds pya=0:9", 2, "--bounds pya", "'pay'"),
        (f"{ASK} {PAID} --keys detp=a,b", 2, "--keys detp", "'dept'"),
        (f"{ASK} {PAID} --weight m=2", 2, "--weight m", r"\bn\b"),
        (f"{ASK} {PAID} --currency zcpd", 2, "--currency zcpd", "zcdp"),
        (f"{ASK} {PAID} --neighbours add_remove", 2, "--neighbours add_remove", "add-remove"),
        (f"ask peple.csv {COUNT} {PAID}", 4, "peple.csv", "path"),
        (f"{ASK} {PAID} --policy polcy.toml", 4, "polcy.toml", "path"),
        (f"{ASK} --epsilon 1 --policy typo.toml", 2, "--policy typo.toml, columns.id.kid:", "kind"),
        ('epsilon "5*gausian(sigma=1)" --delta 1e-6', 2, "gausian", "gaussian"),
        ('epsilon "gaussian(sgma=1)" --delta 1e-6', 2, "sgma", "sigma"),
        ("calibrate gausian --epsilon 1 --delta 1e-6", 2, "MECHANISM gausian", "gaussian"),
        ("plan maen --epsilon 1", 2, "QUESTION maen", "mean"),
        ("lab show countes", 2, "NAME countes", "counties"),
        ("lab attack averagin", 2, "NAME averagin", "averaging"),
        ("help asknig", 2, "TOPIC asknig", "asking"),
        ("audit math:flor --epsilon 1", 2, "FUNCTION flor", "name"),
        ("audit noise.py:mean --epsilon 1", 2, "FUNCTION noise.py", "noise:mean"),
        ("publish typo-plan.toml --dry-run", 2, "questions.all.squel", "sql"),
        ("budget hr.ledger --account rh", 2, "--account rh", "hr"),
    ],
    "wrong SQL": [
        (f'ask when.csv "SELECT COUNT(*) AS n FROM when" {PAID}', 2, "`when`", 'rite "when", in double quotes'),
        (f'ask odd-1.csv "SELECT COUNT(*) AS n FROM odd-1" {PAID}', 2, "`-`", '"odd-1", in double quotes'),
        (f'ask people.csv "SELCT COUNT(*) AS n FROM people" {PAID}', 2, "`SELCT`", "SELECT"),
        (f'ask people.csv "SELECT COUNT(*) AS n FROM people WEHRE age > 3" {PAID}', 2, "`age`",
         "mean WHERE instead of `WEHRE`"),
        (f'ask people.csv "SELECT COUNT(*) AS n FROM people x y" {PAID}', 2, "`y`", "[Cc]heck commas"),
        (f'ask people.csv "DROP TABLE people" {PAID}', 2, "`DROP`", "SELECT"),
        (f'ask people.csv "WITH x AS (SELECT 1) SELECT 2" {PAID}', 2, "`WITH`", "one SELECT"),
        (f'ask people.csv "" {PAID}', 2, "empty", "SELECT"),
        (f'ask people.csv "/* nothing */" {PAID}', 2, "comment", "SELECT"),
        (f'ask people.csv "SELECT COUNT(*) AS n FROM people; SELECT 1" {PAID}', 2, "several", "one SELECT"),
        (f'ask people.csv "SELECT COUNT(*) AS n FROM people -- all" {PAID}', 2, "comment", "[Ll]eave it out"),
        (f'ask people.csv "SELECT CORR(pay) AS c FROM people" {PAID}', 2, "`CORR`", r"CORR\(x, y\)"),
        (f'ask people.csv "SELECT PERCENTILE(pay, 90) AS c FROM people" {PAID}', 2, "`PERCENTILE`", r"QUANTILE\(x, 0.9\)"),
        (f'ask people.csv "SELECT COUNT(*) AS n FROM people LIMIT -1" {PAID}', 2, "LIMIT `-1`", "LIMIT 3"),
        (f'ask people.csv "SELECT dept, COUNT(*) AS n FROM people GROUP BY 3" {PAID}', 2, "`3`", "GROUP BY column"),
        (f'ask people.csv "SELECT dept, COUNT(*) AS n FROM people GROUP BY 2" {PAID}', 2, "aggregate", "GROUP BY column"),
    ],
    "more wrong SQL": [
        (f"""ask people.csv "SELECT COUNT(*) AS n FROM people WHERE dept = 'O'Brien'" {PAID}""", 2, "quote column",
         "O''Brien"),
        (f"""ask people.csv "SELECT COUNT(*) AS n FROM people WHERE dept = 'x" {PAID}""", 2, "quote", "[Cc]lose it"),
        (f'ask people.csv "SELECT TOP 3 dept, COUNT(*) AS n FROM people GROUP BY dept" {PAID}', 2, "TOP", "LIMIT 3"),
        (f'ask people.csv "SELECT COUNT(*) AS n FROM people GROUP BY ROLLUP(dept)" {PAID}', 2, "2 tables", "tabulate"),
        (f'ask people.csv "SELECT COUNT(*) AS n FROM people GROUP BY CUBE(dept)" {PAID}', 2, "2 tables", "each grouping"),
        (f"""{BY_DEPT[:-1]} HAVING n > 'a'" {PAID} --keys dept=a,b""", 2, "`n` count 'a'", "number"),
        (f'ask people.csv "SELECT DISTINCT dept, COUNT(*) AS n FROM people GROUP BY dept" {PAID}', 2, "column 8:",
         "GROUP BY"),
        (f'ask people.csv "SELECT TOP 3 dept, COUNT(*) AS n FROM people" {PAID}', 2, "column 8:", "LIMIT 3"),
        (f'ask people.csv "SELECT COUNT(*) AS n FROM (SELECT * FROM people)" {PAID}', 2, "column 27:", "FROM people"),
        (f'ask people.csv "SELECT COUNT(*) AS n FROM people WHERE age > (SELECT 1)" {PAID}', 2, "column 46:", "two queries"),
        (f'ask people.csv "SELECT COUNT(*) AS n FROM people GROUP BY CUBE(pay + 1)" {PAID}', 2, "column 52:", "GROUP BY"),
    ],
    "missing declarations": [
        (f"{ASK} --epsilon 1", 2, "unit", "--unit"),
        (f"{ASK} --unit id", 2, "--epsilon", "--error"),
        (f'ask people.csv "SELECT AVG(pay) AS m FROM people" {PAID}', 2, "bounds pay", "--bounds pay=0:100"),
        (f'ask people.csv "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept" {PAID}', 2, "keys dept",
         "--keys dept=a,b,c.* --delta 1e-6"),
        (f"{ASK} --unit id --error 5%", 2, "error", "--size 1000.*--pilot 0.01"),
        (f"{ASK} --unit id --error 5% --pilot 0.1", 2, "--pilot", "--budget"),
        (f"ask tables.duckdb {COUNT} {PAID}", 4, "many tables", "--table"),
        ("plan mean --epsilon 1 --n 100", 2, "--bounds mean", "--bounds 0:100"),
        ('epsilon "gaussian(sigma=5)"', 2, "--delta", "--delta 1e-6"),
        ("calibrate gaussian --delta 1e-6", 2, "--epsilon", USAGE),
        ("ledger open new.ledger --account a", 2, "--epsilon", USAGE),
        ("audit math:floor", 2, "--epsilon", "--rho or --mu"),
        ("ask people.csv", 2, "sql", USAGE),
        ("publish no-budget.toml --dry-run", 2, "budget.epsilon", "epsilon = 1"),
        ("publish plan.toml", 2, "--yes", "--dry-run"),
        (f"{ASK} {PAID} --account hr", 2, "--account", "--ledger hr.ledger"),
        (f"{ASK} {PAID} --release r.json", 2, "--release r.json", "--ledger"),
    ],
    "wrong kinds": [
        (f"{ASK} --unit id --epsilon lots", 2, "--epsilon lots", "0.5"),
        (f"{ASK} {PAID} --max-rows 2.5", 2, "--max-rows 2.5", "whole number"),
        (f"{ASK} {PAID} --confidence high", 2, "--confidence high", "number"),
        (f"{ASK} {PAID} --confidence 1.5", 2, "--confidence 1.5", "0.95|between"),
        (f"{ASK} --unit id --error few", 2, "--error few", "5%"),
        (f"{ASK} --unit id --error 5% --size 0", 2, "--size 0", "larger|at least 1"),
        (f"{ASK} {PAID} --bounds dept=0:5", 2, "--bounds `dept` text", "[Ll]eave them out"),
        (f"{ASK} {PAID} --bounds pay=9:0", 2, "--bounds `pay` 9:0", "smaller bound first"),
        (f"{ASK} {PAID} --bounds pay=low:high", 2, "--bounds `pay` low", "decimal"),
        (f"{ASK} {PAID} --bounds pay=0:200,age=0:99", 2, "--bounds", "--bounds pay=0:200 --bounds age=0:99"),
        (f"{ASK} {PAID} --keys dept=", 2, "--keys dept=", 'dept=a,b,c; the empty text is --keys .dept="".'),
        (f"{ASK} {PAID} --keys dept=a,a", 2, "--keys `dept` 'a'", "each key once"),
        (f"{ASK} {PAID} --keys pay=a", 2, "--keys `pay`", "value of that type|bins"),
        (f'ask na.csv "SELECT COUNT(*) AS n FROM na" {PAID} --bounds mass=0:9', 2, "--bounds `mass` inferred",
         'kind = "integer".*policy init'),
        (f'ask na.csv "SELECT SUM(mass) AS s FROM na" {PAID}', 2, "`mass` text", 'kind = "integer".*policy init'),
        (f'ask people.csv "SELECT YEAR(age) AS s FROM people" {PAID}', 2, "`age` integer", "column of dates"),
        (f"{ASK} --unit '' --epsilon 1", 2, "--unit", "--unit household,person"),
        ("calibrate gaussian --epsilon 1", 2, "--delta", "--delta 1e-6"),
        (f"{ASK} {PAID} --id monday", 2, "--id monday", "--ledger"),
        (f"{ASK} {PAID} --bounds pay", 2, "--bounds pay", "--bounds pay=0:200"),
        (f"{ASK} {PAID} --keys age=young", 2, "--keys `age` young integer", "value of that type"),
        (f'ask people.csv "SELECT SUM(dept) AS s FROM people" {PAID}', 2, "dept text", "count|group"),
        (f"""ask people.csv "SELECT COUNT(*) AS n FROM people WHERE age = 'old'" {PAID}""", 2, "old", "number|type|integer"),
        (f"{ASK} {PAID} --policy wrong-kind.toml", 2, "--policy words", "text"),
        # in a CSV file, whose cells are text, the policy decides what they hold; in Parquet the file does
        (f"ask people.parquet {COUNT} --epsilon 1 --policy other-kind.toml", 2, "--policy dept integer", "text.*Correct"),
        ("calibrate gaussian --epsilon 1 --delta 1e-6 --times 0", 2, "--times 0", "at least 1|larger"),
        ("calibrate gaussian --epsilon 1 --delta 1e-6 --rate 3", 2, "--rate 3", "at most 1"),
        (f"{ASK} {PAID} --csv --json", 2, "--csv --json", "one of the two"),
        (f"{ASK} {PAID} --shares", 2, "--shares", "GROUP BY"),
        (f'ask people.csv "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept" {PAID} --delta 1e-6 --shares', 2,
         "--shares keys", "Declare the keys with --keys"),
        (f'ask people.csv "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept LIMIT 2" {PAID} --keys dept=a,b,c '
         "--shares", 2, "--shares LIMIT", "whole answer"),
        (f'ask people.csv "SELECT dept, AVG(pay) AS m FROM people GROUP BY dept" {PAID} --keys dept=a,b,c --bounds pay=0:9 '
         "--shares", 2, "--shares", "a count"),
        (f"{ASK} {PAID} --consistent", 2, "--consistent", "GROUP BY, or leave out --consistent"),
        (f'{BY_DEPT[:-1]} LIMIT 1" {PAID} --keys dept=a,b --consistent', 2, "--consistent",
         "[Ll]eave out HAVING and LIMIT"),
        (f"{BY_DEPT} {PAID} --keys dept=a,b --bounds pay=0:9 --consistent".replace("COUNT(*)", "AVG(pay)"), 2,
         "--consistent", "count or a sum"),
    ],
    "wrong files": [
        (f"ask missing.csv {COUNT} {PAID}", 4, "missing.csv", "path"),
        (f"ask empty.csv {COUNT} {PAID}", 4, "empty.csv empty", "first line"),
        (f'ask headless.csv "SELECT COUNT(*) AS n FROM headless" {PAID}', 2, "--unit header", "first line"),
        (f"ask {COUNT} people.csv {PAID}", 4, "SELECT", "file first"),
        (f"{ASK} --epsilon 1 --policy other.toml", 4, "people.csv policy", "another table.*dept"),
        (f"{ASK} --epsilon 1 --policy half.toml", 2, "--policy rooms", "another table.*source has .*dept"),
        ("publish nope.toml", 4, "nope.toml", "path|name|read"),
        (f'ask ragged.csv "SELECT COUNT(*) AS n FROM ragged" {PAID}', 4, "ragged.csv header", "double quotes"),
        (f"ask folder {COUNT} {PAID}", 4, "folder", "path|Parquet|folder"),
        (f'ask binary.csv "SELECT COUNT(*) AS n FROM binary" {PAID}', 4, "", "UTF-8|text|first line|log"),
        (f'ask latin.csv "SELECT COUNT(*) AS n FROM latin" {PAID}', 4, "", "UTF-8|text|first line|log"),
        (f"ask people.txt {COUNT} {PAID}", 4, ".txt", r"\.csv"),
        (f"{ASK} {PAID} --policy people.csv", 2, "--policy", "TOML|line"),
        (f"{ASK} {PAID} --policy binary.csv", 4, "binary.csv", "UTF-8|path"),
        (f"{ASK} {PAID} --public cities=none.csv", 4, "cities none.csv", "path"),
        ("policy init people.csv --unit id --out policy.toml", 2, "--out policy.toml", "another"),
        ("publish missing.toml --dry-run", 4, "missing.toml", "path|name|read"),
        ("verify missing.json", 2, "RELEASE missing.json", "file"),
        ("verify people.csv", 2, "RELEASE people.csv", "as it was written"),
        ("verify policy.json", 2, "RELEASE policy.json", "release.json|certificate"),
        (f"{ASK} --unit id --epsilon 0.01 --ledger hr.ledger --account hr --release people.csv", 2, "--release people.csv",
         "another"),
    ],
    "wrong ledgers": [
        (f"{ASK} {PAID} --ledger missing.ledger", 4, "missing.ledger --ledger",
         r"discreet ledger open \S*missing.ledger --account hr --epsilon 1"),
        ("budget missing.ledger", 4, "missing.ledger LEDGER", r"discreet ledger open \S*missing.ledger --account"),
        # exit code 1 says that the checks of a ledger fail; a file that never was one is a wrong name, as a missing one is
        ("budget people.csv", 4, "people.csv", "not a ledger.*another file"),
        ("ledger open people.csv --account a --epsilon 1", 4, "people.csv", "not a ledger.*another file"),
        (f"{ASK} {PAID} --ledger people.csv", 4, "people.csv", "not a ledger.*another file"),
        ("budget folder", 4, "folder", "name|file"),
        ("ledger open nodir/x.ledger --account a --epsilon 1", 4, "nodir/x.ledger folder exist", "Create the folder"),
        ("budget empty.csv", 4, "empty.csv", "discreet ledger open|ledger"),
        ("budget mysql://db/hr", 2, "LEDGER mysql", "postgresql"),
        (f"{ASK} {PAID} --ledger broken.ledger --account hr", 1, "broken.ledger", "[Rr]estore"),
        ("ledger open locked.ledger --account new --epsilon 1", 4, "locked.ledger", "process"),
        ("verify release.json --key people.csv", 2, "--key people.csv", "44 characters"),
        *((f"{command} --key nokey.key", 2, "--key nokey.key", "Leave it out") for command in (
            f"{ASK} --unit id --epsilon 0.01 --ledger hr.ledger --account hr --release new.json",
            "ledger head hr.ledger", "ledger key hr.ledger", "ledger rotate-key hr.ledger",
        )),
        ("ledger head hr.ledger --key open.key", 4, "open.key", "chmod 600"),
        ("ledger head hr.ledger --key people.csv", 4, "people.csv", "key|chmod"),
    ],
    "wrong budgets": [
        (f"{ASK} --unit id --epsilon 5 --ledger hr.ledger --account hr", 3, "ε", "--epsilon"),
        (f"{ASK} --unit id --epsilon 2 --budget 1", 3, "ε 2", "--epsilon 1"),
        (f"{ASK} --unit id --epsilon 0", 2, "--epsilon 0", "above 0"),
        (f"{ASK} --unit id --epsilon=-1", 2, "--epsilon -1", "above 0"),
        (f"{ASK} --unit id --epsilon nan", 2, "--epsilon nan|NaN", "finite"),
        (f"{ASK} --unit id --epsilon inf", 2, "--epsilon inf|Inf", "finite"),
        ("ledger open hr.ledger --account z --epsilon 1 --currency zcdp", 2, "--delta", "1e-6"),
        ("ledger open hr.ledger --account z --epsilon 1 --delta 1", 2, "--delta 1", "people|below"),
        ("ledger open hr.ledger --account z --epsilon 1 --delta=-1e-6", 2, "--delta -", "0"),
        ("ledger open hr.ledger --account z --epsilon 0", 2, "--epsilon 0", "above 0|larger"),
        ("ledger open hr.ledger --account hr --epsilon 1", 2, "--account hr", "another name"),
        ("ledger open hr.ledger --account z --epsilon 1 --parent boss", 2, "--parent boss", "hr"),
        ("ledger open hr.ledger --account z --epsilon 1 --delta 1e-6 --currency zcdp --parent hr", 2, "--parent hr",
         "currency"),
        (f"{ASK} {PAID} --ledger hr.ledger --account rh", 2, "--account rh", "hr"),
        (f"{ASK} {PAID} --ledger hr.ledger --account hr --budget 2", 2, "--budget 2", "[Ll]eave it out"),
        (f"{ASK} {PAID} --ledger hr.ledger --account hr --delta 1e-6", 2, "--delta", "[Ll]eave it out"),
        (f"{ASK} {PAID} --error 5", 2, "--epsilon --error", "--epsilon or --error"),
        ("demo --epsilon 0", 2, "--epsilon 0", "above 0"),
    ],
    "usage": [
        ("ledger open new.ledger", 2, "--account --epsilon", "Example: discreet ledger open"),
        ("ledger open new.ledger extra --account a --epsilon 1", 2, "extra", "[Ll]eave it out"),
        ("plan", 2, "question", "Example: discreet plan mean"),
        (f"ask people.csv SELECT COUNT(*) AS n FROM people {PAID}", 2, "FROM", "query in double quotes"),
        (f"{ASK} --unit id --epsilon", 2, "--epsilon", "discreet ask --help"),
        ("plan count --people 100 --epsilon 1", 2, "--people", "--n"),
        (f"{ASK} {PAID} --fresh", 2, "--fresh", "--ledger"),
        (f"{ASK} {PAID} --size 100", 2, "--size 100", "--error"),
        (f"{ASK} {PAID} --key hr.key", 2, "--key hr.key", "--ledger and --release"),
        (f"{ASK} {PAID} --delta 1e-6 --currency 'rdp(1)'", 2, "--currency rdp(1) order above 1", r"rdp\(16\)"),
        ("audit math:floor --epsilon 1 --domain 5:", 2, "--domain '5:' end", "--domain 0:100"),
        ("audit math:floor --epsilon 1 --rho 1", 2, "--epsilon --rho", "--epsilon, --rho or --mu"),
        ("publish people.csv --dry-run", 2, "PLAN people.csv", "line"),
        ("ledger check hr.ledger --head policy.json", 2, "--head policy.json", "ledger head"),
    ],
    "accounts of a ledger": [
        (f"{BY_DEPT} {PAID} --ledger hr.ledger --account hr", 2, "keys dept", "--keys dept=a,b,c.*open an account with a δ"),
        (f"{BY_DEPT} --unit id --ledger hr.ledger --account hr", 2, "--keys `dept` --epsilon",
         "In place of --keys, an account"),
        (f"{BY_DEPT} {PAID} --ledger hr.ledger --account hr --delta 1e-6", 2, "--delta 1e-6:", "--keys.*account with a δ"),
        (f"{ASK} --unit dept --epsilon 0.1 --ledger charged.ledger --account hr", 2, "--unit 'dept' 'hr'",
         "unit 'id', or open another account"),
        (f"{ASK} --unit id --epsilon 0.1 --neighbours replace --ledger charged.ledger --account hr", 2,
         "--neighbours 'hr'", "relation, or open another account"),
        ("publish missing-ledger.toml --yes --to out", 4, "budget.ledger missing.ledger",
         r"discreet ledger open \S*missing.ledger --account pay --epsilon 2"),
    ],
    "policy files": [
        (f"{ASK} --epsilon 1 --policy bad-unit.toml", 2, "--policy bad-unit.toml, unit: 'patients'", "`id`"),
        (f"{ASK} --epsilon 1 --policy bad-limit.toml", 2, 'bad-limit.toml, max_rows: "many" whole', "max_rows = 1"),
        (f"{ASK} --epsilon 1 --policy zero-limit.toml", 2, "zero-limit.toml, max_groups: 0 whole", "max_groups = 1"),
        (f"{ASK} --epsilon 1 --policy bad-least.toml", 2, "bad-least.toml, least_epsilon: 0", "above 0"),
        (f"{ASK} --epsilon 1 --policy bad-column.toml", 2, "bad-column.toml, columns.dpet:", "'dept'"),
        ("policy init people.csv --out new.toml", 2, "--unit missing", "--unit id"),
        (f"{ASK} --epsilon 1 --policy people.csv", 2, "--policy people.csv: TOML", "policy init"),
        (f"{ASK} {PAID} --ledger hr.ledger --account hr --key no.key --release new.json", 4, "key no.key: secret",
         "[Nn]ame the file of the ledger's key"),
    ],
    "local collections": [
        ("local plna --values 5", 2, "plna", "plan"),
        ("local plan --epsilon 1 --n 100", 2, "--values", "Example: discreet local plan"),
        ("local plan --values 100 --epsilon 1", 2, "--epsilon --n --error one", "--n or --error"),
        ("local plan --values 100", 2, "--epsilon --n --error none", "give two|Give two"),
        ("local plan --values 100 --n 100 --error 5", 2, "--error 5: share", "--error 5%"),
        ("local plan --values 100 --n 100 --error 150%", 2, "--error 150% share", "--error 5%"),
        ("local plan --values 100 --n 1.5 --epsilon 1", 2, "--n 1.5", "--n 1000000"),
        ("local plan --values 9 --epsilon 1 --n 100 --plot no/plan.svg", 2, "--plot no/plan.svg folder", "exists"),
        ("local plan --values 9 --epsilon 1 --n 100 --confidence 95", 2, "--confidence 95", "--confidence 95%"),
        ("local plan --values 100 --epsilon 1 --n 100 --error 1%", 2, "--epsilon --n --error", "[Ll]eave out exactly one"),
        ("local plan --values 1 --epsilon 1 --n 100", 2, "--values 1", "2"),
        ("local plan --values 100 --epsilon 0 --n 100", 2, "--epsilon 0", "above 0"),
        ("local plan --values 100 --epsilon 1 --error 1e-9", 2, "--error people", "larger"),
        ("local plan --values 9 --epsilon 1 --n 100 --plot plan.txt", 2, "--plot plan.txt", r"\.svg"),
        ("local collection c --epsilon 1", 2, "--values missing", "--range 0:23"),
        ("local collection c --values a,a --epsilon 1", 2, "--values 'a' twice", "once"),
        ('local collection c --values "a, a" --epsilon 1', 2, "--values 'a' twice", "once"),
        ('local collection c --values "" --epsilon 1', 2, "--values empty", "name"),
        ("local collection c --values a,,b --epsilon 1", 2, "--values 2 empty", "--missing none"),
        ("local collection c --values a,other --epsilon 1", 2, "--values `other`", "--only"),
        ("local collection c --values good.csv --epsilon 1", 2, "--values good.csv file", "--values @good.csv"),
        ("local collection c --values @none.txt --epsilon 1", 2, "--values @none.txt", "one value in each line"),
        ("local collection c --values @empty.csv --epsilon 1", 2, "--values empty", "name"),
        ("local collection c --values red --only --epsilon 1", 2, "--values red one", "two or more"),
        ("local collection c --values a,b --missing a --epsilon 1", 2, "--missing 'a' value", "another name"),
        ("local collection c --values a,b --missing '' --epsilon 1", 2, "--missing empty", "--missing none"),
        ("local collection c --range 5:1 --epsilon 1", 2, "--range 5:1 below", "--range 1:5"),
        ("local collection c --range 0:23 --step 50 --epsilon 1", 2, "--step 50 bucket", "at most 23"),
        ("local collection c --range 0:23 --missing 7 --epsilon 1", 2, "--missing 7 bucket", "another name"),
        ("local collection c --values a,b --epsilon 1 --oracle flh", 2, "--oracle flh", "FixedHashed"),
        ("local collection c --values a,b --epsilon 1 --lifetime 0.5", 2, "--lifetime 0.5", "[Rr]aise"),
        ("local collection c --values a,b --epsilon 1 --oracle projectiv", 2, "--oracle projectiv", "projective"),
        ("local collection c --range 0-23 --epsilon 1", 2, "--range 0-23", "--range 0:23"),
        ("local collection c --range 0:23 --epsilon 1 --out no/c.json", 2, "--out no/c.json", "folder"),
        ("local encode policy.json --value red", 2, "COLLECTION policy.json", "discreet local collection"),
        ("local encode missing.json --value red", 2, "COLLECTION missing.json", "path"),
        ("local encode colours.json --value red --store d.db", 2, "--occasion missing", "--occasion"),
        ("local encode colours.json --value red --occasion d", 2, "--occasion --store", "--store device.db"),
        ("local encode colours.json --value red --form xml", 2, "--form xml", "json or cbor"),
        ("local encode hours.json --value noon", 2, "--value integer", "integers such as 7"),
        ("local encode hours.json --value 3.7", 2, "--value integer 23 rounds", "integers such as 7"),
        ("local encode colours.json --missing", 2, "--missing", "--missing none"),
        ("local encode cut.json --value red", 2, "COLLECTION cut.json bytes", "discreet local collection"),
        ("local encode edited.json --value red", 2, "COLLECTION edited.json edited 'more'", "discreet local collection"),
        ("local encode lacking.json --value red", 2, "COLLECTION lacking.json lacks lifetime", "discreet local collection"),
        ("local days colours.json --days 0", 2, "--days 0", "larger"),
        ("local days colours.json --days 1000000", 2, "--days 1000000", "fewer"),
        ("local decode colours.json good.csv --table reports", 2, "--table reports file", "[Ll]eave it out"),
        ("local decode colours.json tables.duckdb", 2, "--table 'reports' people", "--table people"),
        ("local decode colours.json none.duckdb", 4, "none.duckdb file", "path"),
        ("local decode colours.json noreport.cbor", 2, "REPORTS noreport.cbor report", "encode"),
        ("local decode colours.json noreport.jsonl", 2, "REPORTS noreport.jsonl report", "encode"),
        ("local decode colours.json wide.csv", 2, "REPORTS wide.csv 2 number", "pinned"),
        ("local decode colours.json hours.jsonl", 2, "REPORTS hours.jsonl 16|collection", "pinned"),
        ("local decode colours.json good.csv --hostile 150%", 2, "--hostile 150%", "between 0 and 1"),
        ("local decode colours.json people.csv", 2, "REPORTS 'y'", "column|name it"),
        ("local decode colours.json none.csv", 4, "none.csv", "path"),
        ("local decode colours.json good.csv --hostile 3", 2, "--hostile 3", "between 0 and 1"),
        ("local decode colours.json good.csv --top 0", 2, "--top 0", "1 or more"),
        ("local decode colours.json good.csv --csv --json", 2, "--csv --json", "one of the two"),
        ("local simulate --values 5 --n 1e99 --epsilon 1", 2, "--n people", "fewer"),
        ("local simulate --values 5 --n 100 --epsilon 1 --truth normal", 2, "--truth normal", "zipf or flat"),
        ("local shuffle --n 0.5 --epsilon0 1 --delta 1e-6", 2, "--n 0.5", "--n 1000000"),
        ("local shuffle --n 100 --epsilon0 1 --delta 2", 2, "--delta 2", "1"),
        ("local shuffle --n 100 --epsilon0 1 --delta 1e-6 --oracle direct", 2, "--values missing", "--values 100"),
    ],
    "repeated flags": [
        (f"{ASK} {PAID} --epsilon 2", 2, "--epsilon", "once"),
        (f"{ASK} {PAID} --unit id", 2, "--unit", "once"),
        (f"{ASK} {PAID} --weight n=2 --weight n=3", 2, "--weight `n`", "one of them"),
        (f"{ASK} {PAID} --bounds pay=0:2 --bounds pay=0:3", 2, "--bounds `pay`", "one of them"),
        ("lab exercise counties --check 90.5 --check 3", 2, "--check", "once"),
        ("budget hr.ledger --account hr --account rh", 2, "--account", "once"),
        ("ledger open new.ledger --account a --account b --epsilon 1", 2, "--account", "once"),
        ("plan count --n 100 --n 200 --epsilon 1", 2, "--n", "once"),
        ("publish plan.toml --to a --to b --yes", 2, "--to", "once"),
        ("verify release.json --key a --key b", 2, "--key", "once"),
    ],
}  # fmt: skip
ROWS = [pytest.param(*row, id=row[0]) for rows in WRONG_COMMANDS.values() for row in rows]

POLICY = (
    """table = "people"\nunit = "id"\nunique = true\n[columns.id]\n{kind} = "integer"\n[columns.dept]\nkind = "{dept}"\n"""
)
OTHER_POLICY = 'table = "people"\nunit = "household"\n[columns.household]\nkind = "text"\n[columns.rooms]\nkind = "text"\n'
PLAN = 'source = "people.csv"\nunit = "id"\n{budget}[questions.all]\n{sql} = "SELECT COUNT(*) AS n FROM people"\n'


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a good table, ledger and plan, and one wrong thing of each kind."""
    folder = tmp_path_factory.mktemp("wrong")
    write_people(folder)
    shutil.copy(folder / "people.csv", folder / "people.txt")
    discreet.connect  # noqa: B018 (loads what the commands need)
    texts = {
        "na.csv": "id,mass\n1,NA\n2,3500\n3,4000\n", "headless.csv": "1,a\n2,b\n", "when.csv": "id,pay\n1,2\n",
        "odd-1.csv": "id,pay\n1,2\n", "noise.py": "", "other.toml": OTHER_POLICY,
        "half.toml": OTHER_POLICY.replace("household", "id").replace("text", "integer", 1),
        "empty.csv": "", "ragged.csv": "id,pay\n1,2,3\n4\n5,6,7,8,9\n",
        "typo.toml": POLICY.format(kind="kid", dept="text"),
        "wrong-kind.toml": POLICY.format(kind="kind", dept="words"),
        "other-kind.toml": POLICY.format(kind="kind", dept="integer"),
        "policy.toml": POLICY.format(kind="kind", dept="text"),
        "plan.toml": PLAN.format(budget="[budget]\nepsilon = 1\n", sql="sql"),
        "no-budget.toml": PLAN.format(budget="", sql="sql"),
        "missing-ledger.toml": PLAN.format(
            budget='[budget]\nepsilon = 2\nledger = "missing.ledger"\naccount = "pay"\n', sql="sql"
        ),
        "bad-unit.toml": POLICY.format(kind="kind", dept="text").replace('unit = "id"', 'unit = "patients"'),
        "bad-limit.toml": 'max_rows = "many"\n' + POLICY.format(kind="kind", dept="text"),
        "zero-limit.toml": "max_groups = 0\n" + POLICY.format(kind="kind", dept="text"),
        "bad-least.toml": "least_epsilon = 0\n" + POLICY.format(kind="kind", dept="text"),
        "bad-column.toml": POLICY.format(kind="kind", dept="text").replace("dept", "dpet"),
        "typo-plan.toml": PLAN.format(budget="[budget]\nepsilon = 1\n", sql="squel"), "policy.json": "{}",
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    for line in ("colours --values red,green", "hours --range 0:23"):
        words = [*shlex.split(line), "--epsilon", "1"]
        assert run("local", "collection", *words, "--out", folder / f"{words[0]}.json").returncode == 0
    (folder / "good.csv").write_text("y\n0\n1\n", encoding="utf-8")
    for name in ("noreport.cbor", "noreport.jsonl"):
        (folder / name).write_bytes(b"")
    (folder / "wide.csv").write_text("y\n7\n8\n", encoding="utf-8")
    (folder / "hours.jsonl").write_text(run("local", "encode", folder / "hours.json", "--value", "7").stdout)
    colours = json.loads((folder / "colours.json").read_text(encoding="utf-8"))
    (folder / "cut.json").write_text(json.dumps(colours)[:100], encoding="utf-8")
    (folder / "edited.json").write_text(json.dumps(colours | {"more": 1}), encoding="utf-8")
    (folder / "lacking.json").write_text(json.dumps({k: v for k, v in colours.items() if k != "lifetime"}))
    (folder / "binary.csv").write_bytes(bytes(range(256)) * 40)
    (folder / "latin.csv").write_bytes("id,stra\xdfe\n1,M\xfcnchen\n".encode("latin-1") * 3)
    (folder / "folder").mkdir()
    (folder / "no.key").touch(mode=0o600)
    import duckdb

    with duckdb.connect(str(folder / "tables.duckdb")) as database:
        database.execute("CREATE TABLE people AS SELECT 1 AS id")
        database.execute(f"COPY (SELECT 1 AS id, 'a' AS dept) TO '{folder / 'people.parquet'}'")
    for name in ("hr", "locked", "broken"):
        with open_ledger(folder / f"{name}.ledger", create=True) as ledger:
            ledger.open_account("hr", 1)
    with sqlite3.connect(folder / "broken.ledger") as database:
        database.execute("UPDATE discreet_accounts SET spent = 'nothing'")
    with open_ledger(folder / "charged.ledger", create=True) as ledger:
        ledger.open_account("hr", 1)
    session = connect(folder / "people.csv", unit="id", ledger=folder / "charged.ledger", account="hr")
    session.ask("SELECT COUNT(*) AS n FROM people", epsilon=0.1)
    (folder / "open.key").write_text("A" * 43 + "=\n")
    (folder / "open.key").chmod(0o644)
    (folder / "release.json").write_text(json.dumps({}))
    return folder


@pytest.fixture
def _folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A copy of the folder, in which another process writes to one of the ledgers all the time."""
    shutil.copytree(prepared, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sqlite, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(sqlite, "MAX_TRIES", 2)
    monkeypatch.setattr("sys.path", __import__("sys").path.copy())
    other = sqlite3.connect("locked.ledger", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.close()


def check_message(message: str, named: str, way_out: str) -> None:
    """The message names these things, and a way out; a word with | is one of several."""
    for thing in named.split():
        assert re.search(thing if "|" in thing else re.escape(thing), message), f"{thing!r} is not named in: {message}"
    assert re.search(way_out, message, re.DOTALL), f"no way out ({way_out}) in: {message}"
    assert "Traceback" not in message


def test_there_are_enough_of_each_kind() -> None:
    assert sum(map(len, WRONG_COMMANDS.values())) >= 54
    assert min(map(len, WRONG_COMMANDS.values())) >= 6
    lines = [row[0] for rows in WRONG_COMMANDS.values() for row in rows]
    assert len(set(lines)) == len(lines)


SECTIONS = {
    f"ask missing.csv {COUNT} {PAID}": "asking#which-files-can-be-read",
    f"ask empty.csv {COUNT} {PAID}": "asking#which-files-can-be-read",
    f"{ASK} {PAID} --plot chart.doc": "asking#charts",
    f"{ASK} {PAID} --csv --json": "asking#from-a-shell",
    f"{ASK} --unit id --epsilon 0": "choosing-epsilon#what-ε-means",
    f"{ASK} --unit id --epsilon 0.00001": "asking#the-least-ε-of-a-query",
    f"{ASK} {PAID} --ledger missing.ledger": "ledger#accounts",
    f"{ASK} {PAID} --ledger people.csv": "ledger#accounts",
    f"{ASK} {PAID} --policy wrong-kind.toml": "asking#the-policy-file",
    "publish plan.toml --yes --to folder": "publishing#what-is-written",
    "plan mean --epsilon 1 --n 100": "planning#what-can-be-planned",
    "policy init people.csv --unit id --out policy.toml": "asking#the-policy-file",
    "publish typo-plan.toml --dry-run": "publishing#the-plan-file",
    "local plan --values 100 --epsilon 1": "local#planning",
    "local encode hours.json --value noon": "local#a-collection-from-end-to-end",
    "local decode colours.json none.duckdb": "local#decoding-where-the-reports-are",
    "local decode colours.json none.csv": "local#decoding-where-the-reports-are",
}
"""The section that explains what went wrong, by the command."""


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize(("line", "section"), SECTIONS.items())
def test_an_error_names_the_section_that_explains_it(line: str, section: str) -> None:
    assert run(*shlex.split(line)).stderr.strip().splitlines()[-1] == f"See: discreet help {section}"


@pytest.mark.parametrize(
    ("name", "parameter"),
    [("questions.all.sql", "questions"), ("--max-rows", "max_rows"), ("max_rows", "max_rows"), ("epsilon", "epsilon")],
)
def test_a_parameter_is_explained_by_its_page_however_it_is_written(name: str, parameter: str) -> None:
    assert BadParameter(name, "1", "wrong", "leave it out").see == PARAMETER_PAGES[parameter]


def test_no_error_of_a_parameter_names_a_page_about_something_else() -> None:
    for name, page in PARAMETER_PAGES.items():
        assert find_topic(page), name
    import_every_module()
    for kind in list_error_kinds(DiscreetError):
        assert find_topic(kind.see), kind


def import_every_module() -> None:
    """Import all of discreet, so that every error is among the subclasses, whichever tests this process ran before."""
    for module in walk_packages(discreet.__path__, "discreet."):
        if not module.name.endswith("__main__"):
            import_module(module.name)


def list_error_kinds(kind: type[DiscreetError]) -> list[type[DiscreetError]]:
    """An error and all that are derived from it."""
    return [kind, *(each for derived in kind.__subclasses__() for each in list_error_kinds(derived))]


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize(("line", "code", "named", "way_out"), ROWS)
def test_a_wrong_command_names_the_thing_the_flag_and_the_way_out(line: str, code: int, named: str, way_out: str) -> None:
    words = shlex.split(line)
    done = run(*words)
    message, _, see = done.stderr.strip().rpartition("\n")
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert message.startswith("discreet: ")
    check_message(done.stderr, named, way_out)
    if see.endswith("--help"):
        assert see.startswith("See: discreet ")
    else:
        topic = see.removeprefix("See: discreet help ")
        assert find_topic(topic) == topic, "the page that the error names exists"
    if words[0] not in ("publish", "epsilon"):  # a plan has keys, an expression has parameters
        assert not re.search(r"(?<![-\w])(unit|bounds|keys|epsilon|delta|size|pilot|ledger|error|weights)=(?!=)", message)
    with_json = run(*words, "--json") if "--json" not in words and words[0] not in ("aks",) else done
    assert with_json.stdout == "", "with --json nothing but JSON is printed"
    assert with_json.returncode in (code, 2)


WRONG_CALLS: list[tuple[str, Callable[[], Any], str, str]] = [
    ("a unit that is no column", lambda: connect("people.csv", unit="idd", epsilon=1), "unit idd", "'id'"),
    ("no unit", lambda: connect("people.csv", epsilon=1), "unit", 'unit="id"'),
    ("no budget", lambda: connect("people.csv", unit="id"), "epsilon", "epsilon=1"),
    ("ε of 0", lambda: connect("people.csv", unit="id", epsilon=0), "epsilon 0", "above 0"),
    ("ε that is negative", lambda: connect("people.csv", unit="id", epsilon=-1), "epsilon -1", "above 0"),
    ("ε that is no number", lambda: connect("people.csv", unit="id", epsilon=float("nan")), "epsilon nan", "finite"),
    ("ε as text", lambda: connect("people.csv", unit="id", epsilon="one"), "epsilon", "int|number"),  # type: ignore[arg-type]
    ("δ of 1", lambda: connect("people.csv", unit="id", epsilon=1, delta=1), "delta 1", "people|below"),
    ("no δ", lambda: connect("people.csv", unit="id", epsilon=1, currency="zcdp"), "delta", "1e-6"),
    ("a missing file", lambda: connect("missing.csv", unit="id", epsilon=1), "missing.csv", "path"),
    ("bounds of text", lambda: connect("people.csv", unit="id", epsilon=1, bounds={"dept": (0, 1)}), "bounds", "out"),
    ("bounds as a number", lambda: connect("people.csv", unit="id", epsilon=1, bounds=5), "bounds", r"bounds=\{"),  # type: ignore[arg-type]
    ("keys as one text", lambda: connect("people.csv", unit="id", epsilon=1, keys={"dept": "abc"}), "keys dept", r"keys=\{"),
    ("a ledger that is missing", lambda: connect("people.csv", unit="id", ledger="none.ledger"), "none.ledger ledger=",
     r"open_ledger\(.*none.ledger', create=True\)"),
    ("bounds the wrong way round", lambda: connect("people.csv", unit="id", epsilon=1, bounds={"pay": (9, 0)}),
     "bounds `pay`", "smaller"),
    ("a key twice", lambda: connect("people.csv", unit="id", epsilon=1, keys={"dept": ["a", "a"]}), "keys `dept`", "once"),
    ("a plan of a text", lambda: discreet.plan("mean", error=2, n=100), "query str", r"Mean\(0, 100\)"),  # type: ignore[arg-type]
    ("an account that is unknown",
     lambda: connect("people.csv", unit="id", ledger="hr.ledger", account="rh"), "account rh", "hr"),
    ("a query without bounds",
     lambda: people().ask("SELECT AVG(pay) AS m FROM people", epsilon=1), "pay bounds", r"bounds=\{"),
    ("a query without keys", lambda: people().ask("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", epsilon=1),
     "dept keys", "keys="),
    ("a query with neither", lambda: people().ask("SELECT COUNT(*) AS n FROM people"), "epsilon", "error="),
    ("too much", lambda: people().ask("SELECT COUNT(*) AS n FROM people", epsilon=9), "ε 9", "epsilon=1"),
]  # fmt: skip


def people() -> Any:
    """A session over the table."""
    return connect("people.csv", unit="id", epsilon=1)


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize(("call", "named", "way_out"), [pytest.param(*row[1:], id=row[0]) for row in WRONG_CALLS])
def test_a_wrong_call_names_the_thing_the_parameter_and_the_way_out(
    call: Callable[[], Any], named: str, way_out: str
) -> None:
    with pytest.raises(DiscreetError) as refused:
        call()
    check_message(str(refused.value), named, way_out)
    assert not re.search(r"(?<!\w)--(?!ledger)[a-z]", str(refused.value)), "Python names parameters"
    assert find_topic(refused.value.see)


def test_a_query_is_an_argument_of_ask_and_an_option_of_tabulate(source: str) -> None:
    hints = {"ask": "Put the whole query in double quotes", "tabulate": 'A query is given as --sql "SELECT …"'}
    for command, words in hints.items():
        assert words in " ".join(run(command, source, "SELECT 1", "FROM people", "--unit", "id").stderr.split())
