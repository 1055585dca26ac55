-- The views that people and dashboards may rely on (version 1, docs/reading-the-ledger.md): columns are only ever added,
-- at the end. The first of each view are those of migration 1, in their order.
-- A life's place in a trace is kept so that the next life can link to it; nothing else reads it.

ALTER TABLE run_attempts ADD COLUMN traceparent TEXT;

DROP VIEW v_effects;
DROP VIEW v_calls;
DROP VIEW v_runs;

CREATE VIEW v_runs AS
SELECT r.run_id, r.name, r.status, r.reason, r.attempt, r.created_at, r.updated_at, r.error_code, r.error_detail,
  r.workspace,
  (SELECT count(*) FROM tool_calls c WHERE c.run_id = r.run_id
    AND c.tool_namespace NOT IN ('memo','model','agent','timer','ask','critic'))
    AS calls,
  r.entrypoint, r.deadline_at, r.active_seconds, l.started_at AS life_started_at, l.ended_at AS life_ended_at,
  l.how AS life_ended_how, json_extract(r.lease_owner, '$.pid') AS owner_pid,
  json_extract(r.lease_owner, '$.host') AS owner_host, r.lease_expires_at, s.name AS step_name, s.phase AS phase,
  (SELECT count(*) FROM run_steps i WHERE i.run_id = r.run_id) AS steps,
  (SELECT count(*) FROM tool_calls c WHERE c.run_id = r.run_id
    AND c.tool_namespace NOT IN ('memo','model','agent','timer','ask','critic')
    AND c.side_effect_class IN ('external','memory') AND c.status = 'succeeded'
    AND c.simulated = 0 AND c.inherited_from IS NULL) AS effects,
  (SELECT count(*) FROM tool_calls c WHERE c.run_id = r.run_id
    AND c.status IN ('prepared','awaiting_approval','running','in_doubt') AND c.status = 'in_doubt') AS in_doubt,
  (SELECT count(*) FROM approvals a WHERE a.run_id = r.run_id AND a.status = 'open') AS questions,
  (SELECT count(*) FROM artifacts f WHERE f.run_id = r.run_id) AS artifacts,
  json_extract(r.run_spec_json, '$.budgets.max_wallclock_minutes') AS max_active_minutes,
  json_extract(r.run_spec_json, '$.budgets.max_steps') AS max_steps,
  json_extract(r.run_spec_json, '$.budgets.max_tool_calls') AS max_tool_calls,
  r.run_mode, r.parent_run_id, r.forked_from, r.fork_effects
FROM runs r
LEFT JOIN run_attempts l ON l.run_id = r.run_id AND l.attempt = r.attempt
LEFT JOIN run_steps s ON s.step_id = r.current_step_id;

CREATE VIEW v_calls AS
SELECT c.call_no, c.tool_call_id, c.run_id, c.step_id, c.tool_namespace, c.tool_name, c.raw_tool_name,
  c.side_effect_class, c.replay_policy, c.guarantee, c.status, c.attempt, c.occurrence, c.idempotency_key,
  c.effect_scope, c.external_correlation_id, c.prepared_at, c.started_at, c.finished_at, c.error_code, c.error_detail,
  s.name AS step_name, s.phase AS phase,
  (julianday(c.finished_at) - julianday(c.started_at)) * 86400.0 AS seconds,
  c.parent_call_id, c.handle, c.policy_rule, c.dedupe_key, c.repeat_of, c.same_as, c.not_before, c.key_expires_at,
  c.simulated, c.inherited_from
FROM tool_calls c LEFT JOIN run_steps s ON s.step_id = c.step_id
WHERE c.tool_namespace NOT IN ('memo','model','agent','timer','ask','critic');

-- Neither a simulated call nor the copy that a fork inherits is an effect.
CREATE VIEW v_effects AS
SELECT * FROM v_calls WHERE side_effect_class IN ('external','memory') AND simulated = 0 AND inherited_from IS NULL;
