"""Streams: durable counters that are shown at every step of a horizon, for one debit (continual counting).

factorisation  integer matrices whose product is the prefix sum, and their exact norms
mechanism      the noise of a horizon: its event, and the intervals of what is shown
schedule       the periods of the steps
state          what only the owner may read: exact counts, and who counted when
stream         open, tick, show
answers        what is shown: running totals and sliding windows, with intervals and a chart
"""

from discreet.streams.answers import StreamAnswer, StreamEstimate, StreamSeries
from discreet.streams.stream import Stream, list_streams, load_stream, open_stream, read_stream

__all__ = [
    "Stream", "StreamAnswer", "StreamEstimate", "StreamSeries", "list_streams", "load_stream", "open_stream", "read_stream",
]  # fmt: skip
