"""Local differential privacy via dynamic quantization: the algorithm, its accountant, its attackers.

A companion to Zhang, Kui, Ma and Wu, "Local Differential Privacy via Dynamic Quantization in Distributed
Online Stochastic Optimization". Import the rooms you need:

    from ldp_core import network, optimizer, quantizer

`network`, `quantizer`, `triangular`, `optimizer`, `accountant` and `audit` need numpy only; torch, MNE and moabb are
imported by the rooms below them, when they are used.
"""

__version__ = "0.1.0"
