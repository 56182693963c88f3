-- Two databases with an owner each. The web process has the password of `control` alone, so it can neither read nor write the
-- ledger; workers have both.
CREATE ROLE control LOGIN;
CREATE ROLE ledger LOGIN;
CREATE DATABASE control OWNER control;
CREATE DATABASE ledger OWNER ledger;
REVOKE CONNECT ON DATABASE control, ledger FROM PUBLIC;
