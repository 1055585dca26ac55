-- What runs have used of their budgets, what people have granted, and which stop conditions were met (R036 to R041).
-- A call is charged where it starts and given back where it provably did nothing and is due again: that is a matter of
-- its state alone, so the ledger keeps the account itself, in the statement that moves the call.

CREATE TABLE run_budgets (
  run_id TEXT PRIMARY KEY REFERENCES runs(run_id),
  charged_to TEXT REFERENCES run_budgets(run_id),
  tool_calls INTEGER NOT NULL DEFAULT 0,
  steps INTEGER NOT NULL DEFAULT 0,
  tokens INTEGER NOT NULL DEFAULT 0,
  usd_micros INTEGER NOT NULL DEFAULT 0,
  same_errors INTEGER NOT NULL DEFAULT 0,
  last_error TEXT,
  last_error_tool TEXT
) WITHOUT ROWID;
CREATE INDEX idx_run_budgets_charged_to ON run_budgets(charged_to) WHERE charged_to IS NOT NULL;

CREATE TABLE run_grants (
  grant_no INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs(run_id),
  at TEXT NOT NULL,
  actor TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN
    ('errors','minutes','tokens','usd','steps','calls','retries','deadline')),
  amount TEXT NOT NULL,
  approval_id TEXT
);
CREATE INDEX idx_run_grants_run ON run_grants(run_id);
CREATE TRIGGER run_grants_are_append_only BEFORE UPDATE ON run_grants
BEGIN SELECT RAISE(ABORT, 'run_grants are append-only'); END;
CREATE TRIGGER run_grants_are_not_deleted BEFORE DELETE ON run_grants
BEGIN SELECT RAISE(ABORT, 'run_grants are append-only'); END;

CREATE TABLE run_conditions (
  run_id TEXT NOT NULL REFERENCES runs(run_id),
  condition TEXT NOT NULL,
  at TEXT NOT NULL,
  evidence TEXT,
  PRIMARY KEY (run_id, condition)
) WITHOUT ROWID;

CREATE TRIGGER tool_calls_charge_a_start AFTER INSERT ON tool_calls
WHEN NEW.status = 'running' AND NEW.tool_namespace NOT IN ('memo','model','agent','timer','ask','critic')
BEGIN
  UPDATE run_budgets SET tool_calls = tool_calls + 1
  WHERE run_id = (SELECT coalesce(charged_to, run_id) FROM run_budgets WHERE run_id = NEW.run_id);
END;

CREATE TRIGGER tool_calls_charge_a_move AFTER UPDATE OF status ON tool_calls
WHEN NEW.tool_namespace NOT IN ('memo','model','agent','timer','ask','critic')
  AND (OLD.status IN ('running','in_doubt','succeeded','abandoned') OR (OLD.status = 'failed' AND OLD.attempt > 0))
   <> (NEW.status IN ('running','in_doubt','succeeded','abandoned') OR (NEW.status = 'failed' AND NEW.attempt > 0))
BEGIN
  UPDATE run_budgets SET tool_calls = tool_calls
    + CASE WHEN OLD.status IN ('running','in_doubt','succeeded','abandoned')
        OR (OLD.status = 'failed' AND OLD.attempt > 0) THEN -1 ELSE 1 END
  WHERE run_id = (SELECT coalesce(charged_to, run_id) FROM run_budgets WHERE run_id = NEW.run_id);
END;

CREATE TRIGGER run_steps_charge_a_start AFTER INSERT ON run_steps
WHEN NEW.step_index > 0
BEGIN
  UPDATE run_budgets SET steps = steps + 1
  WHERE run_id = (SELECT coalesce(charged_to, run_id) FROM run_budgets WHERE run_id = NEW.run_id);
END;

INSERT INTO run_budgets (run_id, tool_calls, steps)
SELECT run_id,
  (SELECT count(*) FROM tool_calls c WHERE c.run_id = r.run_id AND c.tool_namespace NOT IN ('memo','model','agent','timer','ask','critic')
    AND (c.status IN ('running','in_doubt','succeeded','abandoned') OR (c.status = 'failed' AND c.attempt > 0))),
  (SELECT count(*) FROM run_steps s WHERE s.run_id = r.run_id AND s.step_index > 0)
FROM runs r;
