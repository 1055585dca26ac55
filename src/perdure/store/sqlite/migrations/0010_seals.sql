-- A chain of hashes over settled calls: an edited, deleted or reordered row does not go unseen (`perdure verify`).
-- What was settled before this migration is not in it; meta.sealed_after is the newest call of that time.

CREATE TABLE seals (
  seal_no INTEGER PRIMARY KEY,
  tool_call_id TEXT NOT NULL REFERENCES tool_calls(tool_call_id),
  sealed_at TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('succeeded','failed','cancelled','abandoned')),
  receipt_sha256 TEXT,
  row_sha256 TEXT NOT NULL,
  chain_sha256 TEXT NOT NULL
);
CREATE INDEX idx_seals_call ON seals(tool_call_id);
CREATE TRIGGER seals_are_append_only BEFORE UPDATE ON seals
BEGIN SELECT RAISE(ABORT, 'seals are append-only'); END;
CREATE TRIGGER seals_are_not_deleted BEFORE DELETE ON seals
BEGIN SELECT RAISE(ABORT, 'seals are append-only'); END;

-- Calls that were open when a life sealed its rows, or were opened again since: the next seal looks at them too.
CREATE TABLE unsealed (
  run_id TEXT NOT NULL REFERENCES runs(run_id),
  tool_call_id TEXT NOT NULL REFERENCES tool_calls(tool_call_id),
  PRIMARY KEY (run_id, tool_call_id)
) WITHOUT ROWID;

-- How many of a run's calls a seal has looked at: they are numbered from 1 in their ids.
ALTER TABLE runs ADD COLUMN sealed_calls INTEGER NOT NULL DEFAULT 0;

UPDATE runs SET sealed_calls = (SELECT count(*) FROM tool_calls c WHERE c.run_id = runs.run_id);
INSERT INTO unsealed (run_id, tool_call_id)
SELECT run_id, tool_call_id FROM tool_calls WHERE status IN ('prepared','awaiting_approval','running','in_doubt');
INSERT INTO meta (key, value) SELECT 'sealed_after', coalesce(max(call_no), 0) FROM tool_calls;
