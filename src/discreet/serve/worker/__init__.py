"""The worker: the only process with data, ledger and key. It takes jobs from the control database; nothing connects to it.

holding     answers that wait for their moment
tables      the ledger, the sources and their sessions; tables are registered in the control database here
jobs        what a job of each kind does
worker      threads that claim jobs, renew their leases and release answers
released    released answers as ordinary tables, for BI tools
alerts      what the service tells the owner by webhook
"""
