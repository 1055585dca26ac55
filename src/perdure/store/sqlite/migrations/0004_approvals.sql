-- A person may approve a call with changed arguments: what is sent then is the edited request. The call keeps its identity
-- (normalized_args_hash, effect_scope, idempotency_key), so that the program that asks again meets it; these two say what
-- it does outside, for every later look at its kin.
ALTER TABLE tool_calls ADD COLUMN edited_args_hash TEXT;
ALTER TABLE tool_calls ADD COLUMN edited_scope TEXT;

-- A later call of the kind that awaits consent while nobody asks for this one any more.
ALTER TABLE approvals ADD COLUMN superseded_by TEXT;
