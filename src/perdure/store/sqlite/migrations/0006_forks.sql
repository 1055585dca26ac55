-- Forks, what a run was made of in each life, and the sessions of model providers (R097, R108, R121).
-- A fork is a run of its own: what it inherits stands as rows of its own, which name the row that it happened in. Such a
-- row has no reference, no handle and no dedupe key: those belong to the row where it happened.

ALTER TABLE runs ADD COLUMN run_mode TEXT NOT NULL DEFAULT 'function';
ALTER TABLE runs ADD COLUMN parent_run_id TEXT REFERENCES runs(run_id);
ALTER TABLE runs ADD COLUMN forked_from TEXT;
ALTER TABLE runs ADD COLUMN fork_effects TEXT CHECK (fork_effects IS NULL OR fork_effects IN ('simulate','live'));
ALTER TABLE runs ADD COLUMN last_job_prompt TEXT;
ALTER TABLE runs ADD COLUMN provider_session_id TEXT;
ALTER TABLE runs ADD COLUMN provider_session_forked_from TEXT;
ALTER TABLE runs ADD COLUMN fingerprint_json TEXT;
ALTER TABLE run_attempts ADD COLUMN changes_json TEXT;
ALTER TABLE checkpoints ADD COLUMN provider_session_id TEXT;
ALTER TABLE tool_calls ADD COLUMN simulated INTEGER NOT NULL DEFAULT 0 CHECK (simulated IN (0, 1));
ALTER TABLE tool_calls ADD COLUMN inherited_from TEXT REFERENCES tool_calls(tool_call_id);
CREATE INDEX idx_tool_calls_inherited ON tool_calls(run_id, inherited_from) WHERE inherited_from IS NOT NULL;

UPDATE runs SET run_mode = 'scope' WHERE run_spec_json LIKE '%"agent": "run_scope"%';
UPDATE runs SET run_mode = 'job' WHERE run_mode = 'function' AND job_path IS NOT NULL AND job_path NOT LIKE '%.py';

-- What happened, or may have, once each: neither a simulated call nor the copy that a fork inherits is an effect.
DROP VIEW activity_log;
CREATE VIEW activity_log AS
SELECT idempotency_key AS idem_key, run_id AS task_id, tool_name AS action,
  CASE status WHEN 'succeeded' THEN 'DONE' WHEN 'failed' THEN 'FAILED' WHEN 'cancelled' THEN 'FAILED' ELSE 'INTENT' END
    AS status,
  external_correlation_id AS provider_ref, created_at, updated_at
FROM tool_calls WHERE side_effect_class = 'external' AND tool_namespace NOT IN ('memo','model','agent','timer','ask','critic')
  AND simulated = 0 AND inherited_from IS NULL;
