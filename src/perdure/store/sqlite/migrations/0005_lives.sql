-- Who asked for a run's end and why; the takeovers that nobody asked for, and what the run had settled at the last one;
-- timers and questions of a program are rows of tool_calls too, and no tool calls.

ALTER TABLE runs ADD COLUMN cancel_actor TEXT;
ALTER TABLE runs ADD COLUMN cancel_reason TEXT;
ALTER TABLE runs ADD COLUMN takeovers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN takeover_settled INTEGER NOT NULL DEFAULT 0;
CREATE INDEX idx_runs_to_cancel ON runs(run_no) WHERE status = 'running' AND cancel_requested_at IS NOT NULL;
CREATE INDEX idx_runs_crash_loop ON runs(run_no) WHERE status = 'waiting' AND reason = 'crash_loop';
CREATE INDEX idx_artifacts_newest ON artifacts(run_id, artifact_no);

DROP VIEW activity_log;
DROP VIEW v_effects;
DROP VIEW v_calls;
DROP VIEW v_runs;

CREATE VIEW v_runs AS
SELECT run_id, name, status, reason, attempt, created_at, updated_at, error_code, error_detail, workspace,
  (SELECT count(*) FROM tool_calls c WHERE c.run_id = r.run_id
    AND c.tool_namespace NOT IN ('memo','model','agent','timer','ask','critic')) AS calls
FROM runs r;

CREATE VIEW v_calls AS
SELECT call_no, tool_call_id, run_id, step_id, tool_namespace, tool_name, raw_tool_name, side_effect_class,
  replay_policy, guarantee, status, attempt, occurrence, idempotency_key, effect_scope, external_correlation_id,
  prepared_at, started_at, finished_at, error_code, error_detail
FROM tool_calls WHERE tool_namespace NOT IN ('memo','model','agent','timer','ask','critic');

CREATE VIEW v_effects AS
SELECT * FROM v_calls WHERE side_effect_class IN ('external','memory');

CREATE VIEW activity_log AS
SELECT idempotency_key AS idem_key, run_id AS task_id, tool_name AS action,
  CASE status WHEN 'succeeded' THEN 'DONE' WHEN 'failed' THEN 'FAILED' WHEN 'cancelled' THEN 'FAILED' ELSE 'INTENT' END
    AS status,
  external_correlation_id AS provider_ref, created_at, updated_at
FROM tool_calls
WHERE side_effect_class = 'external' AND tool_namespace NOT IN ('memo','model','agent','timer','ask','critic');
