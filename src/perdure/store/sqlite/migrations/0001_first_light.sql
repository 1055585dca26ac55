-- The tables of document 000 §5 with what design.md §4 adds. Status words are repeated here as CHECK constraints; a test
-- compares them with the transition tables.

CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE runs (
  run_no INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('queued','running','waiting','succeeded','failed','cancelled')),
  reason TEXT CHECK (reason IS NULL OR reason IN
    ('in_doubt','approval','question','challenge','timer','budget','storage','crash_loop')),
  entrypoint TEXT NOT NULL,
  run_spec_json TEXT NOT NULL,
  run_spec_hash TEXT NOT NULL,
  job_path TEXT,
  policies_json TEXT NOT NULL DEFAULT '[]',
  workspace TEXT NOT NULL,
  deadline_at TEXT,
  attempt INTEGER NOT NULL DEFAULT 0,
  active_seconds REAL NOT NULL DEFAULT 0,
  lease_owner TEXT,
  lease_fence INTEGER NOT NULL DEFAULT 0,
  lease_expires_at TEXT,
  current_step_id TEXT,
  last_checkpoint_id TEXT,
  final_artifact_ref TEXT,
  result_ref TEXT,
  ended_by_call_id TEXT,
  error_code TEXT,
  error_detail TEXT,
  cancel_requested_at TEXT,
  CHECK ((status = 'waiting') = (reason IS NOT NULL))
);
CREATE INDEX idx_runs_status ON runs(status, updated_at);

CREATE TRIGGER runs_spec_is_immutable BEFORE UPDATE OF run_id, run_spec_json, run_spec_hash ON runs
WHEN NEW.run_id IS NOT OLD.run_id OR NEW.run_spec_json IS NOT OLD.run_spec_json
  OR NEW.run_spec_hash IS NOT OLD.run_spec_hash
BEGIN SELECT RAISE(ABORT, 'run_spec_json is immutable'); END;

CREATE TABLE run_attempts (
  run_id TEXT NOT NULL REFERENCES runs(run_id),
  attempt INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  owner TEXT NOT NULL,
  started_at TEXT NOT NULL,
  ended_at TEXT,
  how TEXT,
  replayed INTEGER NOT NULL DEFAULT 0,
  settled INTEGER NOT NULL DEFAULT 0,
  challenged INTEGER NOT NULL DEFAULT 0,
  unmet INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (run_id, attempt)
) WITHOUT ROWID;

CREATE TABLE run_steps (
  step_no INTEGER PRIMARY KEY,
  step_id TEXT NOT NULL UNIQUE,
  run_id TEXT NOT NULL REFERENCES runs(run_id),
  step_index INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('ready','running','blocked','succeeded','failed','skipped')),
  phase TEXT NOT NULL,
  name TEXT NOT NULL,
  occurrence INTEGER NOT NULL,
  attempt INTEGER NOT NULL DEFAULT 1,
  output_ref TEXT,
  error_code TEXT,
  error_detail TEXT,
  UNIQUE (run_id, name, occurrence)
);
CREATE UNIQUE INDEX idx_run_steps_run ON run_steps(run_id, step_index);

CREATE TABLE tool_calls (
  call_no INTEGER PRIMARY KEY,
  tool_call_id TEXT NOT NULL UNIQUE,
  run_id TEXT NOT NULL REFERENCES runs(run_id),
  step_id TEXT NOT NULL REFERENCES run_steps(step_id),
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  raw_tool_name TEXT NOT NULL,
  tool_namespace TEXT NOT NULL,
  side_effect_class TEXT NOT NULL CHECK (side_effect_class IN ('external','memory','local','read_only')),
  replay_policy TEXT NOT NULL CHECK (replay_policy IN
    ('REPLAY_EXACT','REPLAY_IDEMPOTENT','RELAUNCH','RECONCILE','ASK')),
  guarantee TEXT NOT NULL,
  policy_rule TEXT,
  normalized_args_hash TEXT NOT NULL,
  effect_scope TEXT,
  occurrence INTEGER NOT NULL,
  idempotency_key TEXT NOT NULL UNIQUE,
  dedupe_key TEXT,
  status TEXT NOT NULL CHECK (status IN
    ('prepared','awaiting_approval','running','in_doubt','succeeded','failed','cancelled','abandoned')),
  attempt INTEGER NOT NULL DEFAULT 0,
  fence INTEGER NOT NULL,
  branch TEXT NOT NULL DEFAULT '',
  parent_call_id TEXT REFERENCES tool_calls(tool_call_id),
  call_index INTEGER,
  repeat_of TEXT UNIQUE,
  same_as TEXT,
  request_ref TEXT,
  response_ref TEXT,
  external_correlation_id TEXT,
  handle TEXT,
  prepared_at TEXT,
  started_at TEXT,
  finished_at TEXT,
  delivered_at TEXT,
  delivered_seq INTEGER,
  not_before TEXT,
  key_expires_at TEXT,
  valid_until TEXT,
  caused_by_call_id TEXT,
  error_code TEXT,
  error_detail TEXT,
  CHECK (same_as IS NULL OR status = 'cancelled'),
  CHECK (status NOT IN ('running','in_doubt','succeeded') OR started_at IS NOT NULL OR tool_namespace = 'memo')
);
CREATE INDEX idx_tool_calls_run_step ON tool_calls(run_id, step_id);
CREATE INDEX idx_tool_calls_equal ON tool_calls(run_id, normalized_args_hash, tool_name, tool_namespace, occurrence);
CREATE INDEX idx_tool_calls_open ON tool_calls(run_id, status)
  WHERE status IN ('prepared','awaiting_approval','running','in_doubt');
CREATE UNIQUE INDEX idx_tool_calls_dedupe ON tool_calls(dedupe_key)
  WHERE dedupe_key IS NOT NULL AND NOT (status = 'cancelled' AND same_as IS NULL)
    AND NOT (status = 'failed' AND error_code = 'challenged');
CREATE UNIQUE INDEX idx_tool_calls_ref ON tool_calls(tool_name, external_correlation_id)
  WHERE external_correlation_id IS NOT NULL AND status = 'succeeded';

CREATE TABLE evidence (
  evidence_no INTEGER PRIMARY KEY,
  tool_call_id TEXT NOT NULL REFERENCES tool_calls(tool_call_id),
  kind TEXT NOT NULL CHECK (kind IN ('attempt','probe','reply','verdict','ref')),
  at TEXT NOT NULL,
  actor TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  says TEXT NOT NULL,
  detail TEXT,
  ref TEXT
);
CREATE INDEX idx_evidence_call ON evidence(tool_call_id);
CREATE TRIGGER evidence_is_append_only BEFORE UPDATE ON evidence
BEGIN SELECT RAISE(ABORT, 'evidence is append-only'); END;
CREATE TRIGGER evidence_is_not_deleted BEFORE DELETE ON evidence
BEGIN SELECT RAISE(ABORT, 'evidence is append-only'); END;

CREATE TABLE approvals (
  approval_no INTEGER PRIMARY KEY,
  approval_id TEXT NOT NULL UNIQUE,
  run_id TEXT NOT NULL REFERENCES runs(run_id),
  tool_call_id TEXT REFERENCES tool_calls(tool_call_id),
  kind TEXT NOT NULL CHECK (kind IN ('approval','question','challenge','in_doubt','budget')),
  status TEXT NOT NULL CHECK (status IN ('open','answered','closed')),
  request_hash TEXT,
  summary TEXT NOT NULL,
  detail TEXT,
  created_at TEXT NOT NULL,
  expires_at TEXT,
  decided_at TEXT,
  actor TEXT,
  answer TEXT
);
CREATE UNIQUE INDEX idx_approvals_open_call ON approvals(tool_call_id) WHERE status = 'open';
CREATE INDEX idx_approvals_call ON approvals(tool_call_id);
CREATE INDEX idx_approvals_open ON approvals(run_id) WHERE status = 'open';

CREATE TABLE checkpoints (
  checkpoint_no INTEGER PRIMARY KEY,
  checkpoint_id TEXT NOT NULL UNIQUE,
  run_id TEXT NOT NULL REFERENCES runs(run_id),
  step_id TEXT NOT NULL REFERENCES run_steps(step_id),
  created_at TEXT NOT NULL,
  checkpoint_type TEXT NOT NULL CHECK (checkpoint_type IN
    ('step_boundary','phase_boundary','pre_side_effect','interrupt')),
  state_snapshot_json TEXT NOT NULL,
  cursor_json TEXT
);
CREATE INDEX idx_checkpoints_run ON checkpoints(run_id, checkpoint_no);

CREATE TABLE artifacts (
  artifact_no INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs(run_id),
  path TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  UNIQUE (run_id, path, sha256)
);

CREATE TABLE payloads (
  sha256 TEXT PRIMARY KEY,
  bytes BLOB NOT NULL
) WITHOUT ROWID;

CREATE VIEW v_runs AS
SELECT run_id, name, status, reason, attempt, created_at, updated_at, error_code, error_detail, workspace,
  (SELECT count(*) FROM tool_calls c WHERE c.run_id = r.run_id AND c.tool_namespace NOT IN ('memo','model','agent'))
    AS calls
FROM runs r;

CREATE VIEW v_calls AS
SELECT call_no, tool_call_id, run_id, step_id, tool_namespace, tool_name, raw_tool_name, side_effect_class,
  replay_policy, guarantee, status, attempt, occurrence, idempotency_key, effect_scope, external_correlation_id,
  prepared_at, started_at, finished_at, error_code, error_detail
FROM tool_calls WHERE tool_namespace NOT IN ('memo','model','agent');

CREATE VIEW v_effects AS
SELECT * FROM v_calls WHERE side_effect_class IN ('external','memory');

CREATE VIEW activity_log AS
SELECT idempotency_key AS idem_key, run_id AS task_id, tool_name AS action,
  CASE status WHEN 'succeeded' THEN 'DONE' WHEN 'failed' THEN 'FAILED' WHEN 'cancelled' THEN 'FAILED' ELSE 'INTENT' END
    AS status,
  external_correlation_id AS provider_ref, created_at, updated_at
FROM tool_calls WHERE side_effect_class = 'external' AND tool_namespace NOT IN ('memo','model','agent');
