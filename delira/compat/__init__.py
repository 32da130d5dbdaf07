"""What only scripts for the older delira (0.3 to 0.5) and for torchbearer need: old names and places, and adapters.

Nobody imports it but the lazy tables (``delira.utils.lazy``), when a script asks for what is nowhere else. Nothing is
computed here that is computed elsewhere; a copy of delira without this folder works, but for such scripts.
"""
