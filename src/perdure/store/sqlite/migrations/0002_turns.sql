-- The exact handle of a call that a model's turn asks for: the turn, and which of its calls (semantics F2, #17).
-- Several handles may name one row: a model that asks again for what it has forgotten gets what was done.

CREATE TABLE turn_calls (
  parent_call_id TEXT NOT NULL REFERENCES tool_calls(tool_call_id),
  call_index INTEGER NOT NULL,
  tool_call_id TEXT NOT NULL REFERENCES tool_calls(tool_call_id),
  adopted INTEGER NOT NULL CHECK (adopted IN (0, 1)),
  PRIMARY KEY (parent_call_id, call_index)
) WITHOUT ROWID;
CREATE INDEX idx_turn_calls_call ON turn_calls(tool_call_id);
