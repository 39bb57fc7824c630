"""Local differential privacy via dynamic quantization: network, quantizer, optimizer, accountant.

A companion to Zhang, Kui, Ma and Wu, "Local Differential Privacy via Dynamic Quantization in
Distributed Online Stochastic Optimization". Import the rooms you need: `from ldp_core import
network, optimizer`. numpy is all that it needs. What the notebooks need is in `companion`.
"""

from ldp_core.checks import guard

__version__ = "0.2.0"

guard(__name__, "schedules network randomness quantizer optimizer clipping distinguishers audit")
