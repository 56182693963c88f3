"""Local privacy: each person adds the noise to their own value, so that no curator has to be trusted with the data.

`oracles` has the mechanisms for one of many values, each as one frozen value with exact odds; `draws` is the only randomness
of a client.
"""
