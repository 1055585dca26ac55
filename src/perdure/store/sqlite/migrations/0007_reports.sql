-- What a completion report tells and the rows did not say yet: which effects nobody asked for again (R119, R5), and
-- which call's receipt names a file (R061).

ALTER TABLE run_attempts ADD COLUMN unmet_json TEXT;
ALTER TABLE artifacts ADD COLUMN tool_call_id TEXT REFERENCES tool_calls(tool_call_id);
