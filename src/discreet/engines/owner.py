"""What only the owner of the data may read: engine errors quote values.

It goes nowhere unless the owner gives this logger a handler, or the command line a file in DISCREET_OWNER_LOG.
"""

import logging

log = logging.getLogger("discreet.owner")
log.addHandler(logging.NullHandler())
log.propagate = False
