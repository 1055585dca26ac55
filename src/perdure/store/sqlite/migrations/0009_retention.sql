-- Retention: bodies of ended runs may be removed; keys, hashes, outcomes, references and times stay for ever.
-- pruned_at is set before the first body goes, so that nobody goes on with a run that has lost some of them.

ALTER TABLE runs ADD COLUMN pruned_at TEXT;
ALTER TABLE runs ADD COLUMN bodies_left INTEGER NOT NULL DEFAULT 1 CHECK (bodies_left IN (0, 1));

DROP TRIGGER runs_spec_is_immutable;
CREATE TRIGGER runs_spec_is_immutable BEFORE UPDATE OF run_id, run_spec_json, run_spec_hash ON runs
WHEN NEW.run_id IS NOT OLD.run_id OR NEW.run_spec_hash IS NOT OLD.run_spec_hash
  OR (NEW.run_spec_json IS NOT OLD.run_spec_json AND (NEW.pruned_at IS NULL OR NEW.run_spec_json <> '{}'))
BEGIN SELECT RAISE(ABORT, 'run_spec_json is immutable'); END;

-- Evidence loses its detail with the bodies of its run, and nothing else of it ever changes.
DROP TRIGGER evidence_is_append_only;
CREATE TRIGGER evidence_is_append_only BEFORE UPDATE ON evidence
WHEN NEW.detail IS NOT NULL OR NEW.evidence_no <> OLD.evidence_no OR NEW.tool_call_id <> OLD.tool_call_id
  OR NEW.kind <> OLD.kind OR NEW.at <> OLD.at OR NEW.actor <> OLD.actor OR NEW.attempt <> OLD.attempt
  OR NEW.says <> OLD.says OR NEW.ref IS NOT OLD.ref
  OR (SELECT r.pruned_at FROM tool_calls c JOIN runs r ON r.run_id = c.run_id
      WHERE c.tool_call_id = OLD.tool_call_id) IS NULL
BEGIN SELECT RAISE(ABORT, 'evidence is append-only'); END;

-- Which rows still need a body that stands in payloads.
CREATE INDEX idx_tool_calls_request_body ON tool_calls(request_ref) WHERE substr(request_ref, 1, 7) = 'sha256:';
CREATE INDEX idx_tool_calls_response_body ON tool_calls(response_ref) WHERE substr(response_ref, 1, 7) = 'sha256:';
