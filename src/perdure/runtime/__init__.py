"""The imperative shell: leases, dispatch, settling, suspension, checkpoints."""
