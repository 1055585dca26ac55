-- Every statement of the store, by name. Texts are fixed, so that SQLite prepares each of them once.
-- A write that belongs to a run names the run and its fence; the store demands that it changed exactly one row.
-- repeat_of stands while the call runs, is in doubt or was done: one that did nothing has not used its citation up.
-- A run's updated_at never goes back, even if the wall clock does: the newest of them tells whether a key has expired.

-- columns: run
run_no, run_id, name, status, reason, entrypoint, run_spec_json, run_spec_hash, created_at, updated_at, attempt,
lease_fence, lease_owner, lease_expires_at, deadline_at, ended_by_call_id, result_ref, error_code, error_detail,
workspace, job_path, cancel_requested_at, policies_json

-- columns: life
attempt, fence, owner, started_at, ended_at, how, replayed, settled, challenged, unmet

-- columns: call
call_no, tool_call_id, run_id, step_id, tool_namespace, tool_name, side_effect_class, replay_policy, status,
attempt, occurrence, normalized_args_hash, effect_scope, idempotency_key, fence, branch, parent_call_id, dedupe_key,
same_as, repeat_of, not_before, key_expires_at, started_at, finished_at, error_code, error_detail,
external_correlation_id, handle, prepared_at, valid_until, edited_args_hash, edited_scope,
simulated, inherited_from

-- columns: settled
tool_call_id, run_id, tool_namespace, tool_name, side_effect_class, normalized_args_hash, idempotency_key, status,
attempt, request_ref, response_ref, external_correlation_id, same_as, error_code, started_at, finished_at

-- columns: c_settled
c.tool_call_id, c.run_id, c.tool_namespace, c.tool_name, c.side_effect_class, c.normalized_args_hash,
c.idempotency_key, c.status, c.attempt, c.request_ref, c.response_ref, c.external_correlation_id, c.same_as,
c.error_code, c.started_at, c.finished_at

-- columns: question
approval_id, run_id, tool_call_id, kind, status, summary, detail, created_at, decided_at, actor, answer, request_hash,
expires_at, superseded_by

-- columns: public
call_no, tool_call_id, run_id, step_id, tool_namespace, tool_name, raw_tool_name, side_effect_class, replay_policy,
guarantee, status, attempt, occurrence, idempotency_key, effect_scope, external_correlation_id, prepared_at, started_at,
finished_at, error_code, error_detail, request_ref, response_ref, policy_rule, same_as, parent_call_id, handle, fence,
simulated, inherited_from

-- columns: watched
call_no, tool_call_id, tool_namespace, tool_name, step_id, side_effect_class, guarantee, status, attempt, prepared_at,
started_at, finished_at, updated_at, error_code, external_correlation_id

-- name: insert_run
INSERT INTO runs (run_id, name, created_at, updated_at, status, entrypoint, run_spec_json, run_spec_hash, job_path,
  policies_json, workspace, deadline_at, run_mode, last_job_prompt)
VALUES (:run_id, :name, :now, :now, 'queued', :entrypoint, :spec, :spec_hash, :job_path, :policies, :workspace,
  :deadline_at, :run_mode, :last_job_prompt)

-- name: get_run
SELECT {run}
FROM runs WHERE run_id = :run_id

-- name: stored_result
SELECT result_ref FROM runs WHERE run_id = :run_id

-- name: list_runs
SELECT {run}
FROM runs
WHERE (:status IS NULL OR status = :status) AND (:name IS NULL OR name GLOB :name)
  AND (:since IS NULL OR updated_at >= :since)
ORDER BY run_no DESC LIMIT :limit

-- name: count_done_runs
SELECT status, count(*) FROM runs WHERE status IN ('succeeded', 'cancelled') GROUP BY status

-- name: run_ids_like
SELECT run_id FROM runs WHERE run_id >= :prefix AND run_id < :prefix || char(1114111) ORDER BY run_no DESC LIMIT 6

-- name: last_run_id
SELECT run_id FROM runs ORDER BY run_no DESC LIMIT 1

-- name: claim_run
UPDATE runs SET status = 'running', reason = NULL, lease_owner = :owner, lease_fence = lease_fence + 1,
  lease_expires_at = :expires, attempt = attempt + 1, updated_at = max(updated_at, :now), error_code = NULL,
  error_detail = NULL, ended_by_call_id = NULL
WHERE run_id = :run_id AND lease_fence = :fence AND status IN ('queued', 'running')

-- name: queue_run
UPDATE runs SET status = 'queued', reason = NULL, updated_at = max(updated_at, :now)
WHERE run_id = :run_id AND lease_fence = :fence AND status = :status

-- name: insert_attempt
INSERT INTO run_attempts (run_id, attempt, fence, owner, started_at)
VALUES (:run_id, :attempt, :fence, :owner, :now)

-- name: end_attempt
UPDATE run_attempts SET ended_at = :now, how = :how, replayed = :replayed, settled = :settled,
  challenged = :challenged, unmet = :unmet, unmet_json = :unmet_json
WHERE run_id = :run_id AND fence = :fence AND ended_at IS NULL

-- name: set_traceparent
UPDATE run_attempts SET traceparent = :traceparent WHERE run_id = :run_id AND fence = :fence

-- name: traceparent_before
SELECT traceparent FROM run_attempts
WHERE run_id = :run_id AND fence < :fence AND traceparent IS NOT NULL ORDER BY attempt DESC LIMIT 1

-- name: get_attempt
SELECT {life}
FROM run_attempts WHERE run_id = :run_id AND fence = :fence

-- name: last_attempt
SELECT {life}
FROM run_attempts WHERE run_id = :run_id ORDER BY attempt DESC LIMIT 1

-- name: list_attempts
SELECT {life}
FROM run_attempts WHERE run_id = :run_id ORDER BY attempt

-- name: renew_lease
UPDATE runs SET lease_expires_at = :expires, updated_at = max(updated_at, :now),
  active_seconds = active_seconds + :active_seconds
WHERE run_id = :run_id AND lease_fence = :fence AND status = 'running'

-- name: end_run
UPDATE runs SET status = :status, reason = :reason, updated_at = max(updated_at, :now), result_ref = :result,
  error_code = :error_code, error_detail = :error_detail, ended_by_call_id = :ended_by, lease_owner = NULL,
  lease_expires_at = NULL, active_seconds = active_seconds + :active_seconds
WHERE run_id = :run_id AND lease_fence = :fence AND status = 'running'

-- name: ask_cancel
UPDATE runs SET cancel_requested_at = :now, cancel_actor = :actor, cancel_reason = :reason,
  updated_at = max(updated_at, :now)
WHERE run_id = :run_id AND lease_fence = :fence AND status = 'running' AND cancel_requested_at IS NULL

-- name: cancel_run
UPDATE runs SET status = 'cancelled', reason = NULL, lease_fence = lease_fence + 1, lease_owner = NULL,
  lease_expires_at = NULL, updated_at = max(updated_at, :now), cancel_requested_at = coalesce(cancel_requested_at, :now),
  cancel_actor = CASE WHEN cancel_requested_at IS NULL THEN :actor ELSE cancel_actor END,
  cancel_reason = CASE WHEN cancel_requested_at IS NULL THEN :reason ELSE cancel_reason END
WHERE run_id = :run_id AND lease_fence = :fence AND status = :status

-- name: cancel_of_run
SELECT cancel_requested_at, cancel_actor, cancel_reason FROM runs WHERE run_id = :run_id

-- name: cancel_asked
SELECT 1 FROM runs WHERE run_id = :run_id AND lease_fence = :fence AND cancel_requested_at IS NOT NULL

-- name: runs_to_cancel
SELECT {run}
FROM runs WHERE status = 'running' AND cancel_requested_at IS NOT NULL

-- name: forget_cancel
UPDATE runs SET cancel_requested_at = NULL, cancel_actor = NULL, cancel_reason = NULL
WHERE run_id = :run_id AND lease_fence = :fence

-- name: takeovers_of_run
SELECT takeovers, takeover_settled, (SELECT count(*) FROM tool_calls c WHERE c.run_id = r.run_id
  AND c.status IN ('succeeded','failed','cancelled','abandoned'))
FROM runs r WHERE run_id = :run_id

-- name: count_takeover
UPDATE runs SET takeovers = :takeovers, takeover_settled = :settled WHERE run_id = :run_id AND lease_fence = :fence

-- name: park_crash_loop
UPDATE runs SET status = 'waiting', reason = 'crash_loop', lease_fence = lease_fence + 1, lease_owner = NULL,
  lease_expires_at = NULL, updated_at = max(updated_at, :now)
WHERE run_id = :run_id AND lease_fence = :fence AND status = 'running'

-- name: calls_of_step
SELECT tool_call_id, tool_name, status, external_correlation_id FROM tool_calls
WHERE run_id = :run_id AND step_id = :step_id
  AND tool_namespace NOT IN ('memo','model','agent','timer','ask','critic') ORDER BY call_no

-- name: newest_artifacts
SELECT path, sha256, size_bytes FROM artifacts WHERE run_id = :run_id ORDER BY artifact_no DESC LIMIT :limit

-- name: reviews
SELECT tool_name, status, call_no, error_detail FROM tool_calls
WHERE run_id = :run_id AND tool_namespace = 'critic' ORDER BY call_no

-- name: crash_loops
SELECT {run}
FROM runs WHERE status = 'waiting' AND reason = 'crash_loop' ORDER BY run_no

-- name: overdue_runs
SELECT {run}
FROM runs WHERE status = 'waiting' AND deadline_at <= :now

-- name: expire_run
UPDATE runs SET status = 'failed', reason = NULL, updated_at = max(updated_at, :now), error_code = 'deadline',
  error_detail = :error_detail
WHERE run_id = :run_id AND lease_fence = :fence AND status = 'waiting'

-- name: run_pointers
UPDATE runs SET current_step_id = :step_id, last_checkpoint_id = coalesce(:checkpoint_id, last_checkpoint_id),
  updated_at = max(updated_at, :now)
WHERE run_id = :run_id AND lease_fence = :fence

-- name: insert_step
INSERT INTO run_steps (step_id, run_id, step_index, created_at, updated_at, status, phase, name, occurrence,
  error_detail)
SELECT :step_id, :run_id, coalesce((SELECT max(step_index) + 1 FROM run_steps WHERE run_id = :run_id), 0), :now, :now,
  :status, :phase, :name, :occurrence, :error_detail
WHERE (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: get_step
SELECT step_id, step_index, status, phase, name, occurrence, attempt, error_code, error_detail
FROM run_steps WHERE run_id = :run_id AND name = :name AND occurrence = :occurrence

-- name: close_steps
UPDATE run_steps SET status = CASE status WHEN 'ready' THEN 'skipped' ELSE :left_open END, error_code = :error_code,
  error_detail = :error_detail, updated_at = :now
WHERE run_id = :run_id AND status IN ('ready','running','blocked')
  AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: list_steps
SELECT step_id, step_index, status, phase, name, occurrence, attempt, error_code, error_detail, created_at, updated_at
FROM run_steps WHERE run_id = :run_id ORDER BY step_index

-- name: move_step
UPDATE run_steps SET status = :status, error_code = :error_code, error_detail = :error_detail, updated_at = :now,
  attempt = attempt + :again
WHERE step_id = :step_id AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: insert_checkpoint
INSERT INTO checkpoints (checkpoint_id, run_id, step_id, created_at, checkpoint_type, state_snapshot_json, cursor_json,
  provider_session_id)
SELECT :checkpoint_id, :run_id, :step_id, :now, :type, :snapshot, :cursor, :provider_session_id
WHERE (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: count_checkpoints
SELECT count(*) FROM checkpoints WHERE run_id = :run_id

-- name: next_call_number
SELECT count(*) FROM tool_calls WHERE run_id = :run_id

-- name: last_occurrence
SELECT coalesce(max(occurrence), 0) FROM tool_calls
WHERE run_id = :run_id AND normalized_args_hash = :args_hash AND tool_name = :tool_name AND tool_namespace = :namespace

-- name: insert_call
INSERT INTO tool_calls (tool_call_id, run_id, step_id, created_at, updated_at, tool_name, raw_tool_name, tool_namespace,
  side_effect_class, replay_policy, guarantee, policy_rule, normalized_args_hash, effect_scope, occurrence,
  idempotency_key, dedupe_key, status, attempt, fence, branch, parent_call_id, call_index, repeat_of, request_ref,
  prepared_at, started_at, finished_at, key_expires_at, valid_until, not_before, error_code, error_detail,
  simulated)
SELECT :tool_call_id, :run_id, :step_id, :now, :now, :tool_name, :raw_tool_name, :namespace, :side_effect_class,
  :replay_policy, :guarantee, :policy_rule, :args_hash, :effect_scope, :occurrence, :idempotency_key, :dedupe_key,
  :status, :attempt, :fence, :branch, :parent_call_id, :call_index, :repeat_of, :request, :now, :started_at,
  :finished_at, :key_expires_at, :valid_until, :not_before, :error_code, :error_detail, :simulated
WHERE (SELECT lease_fence FROM runs WHERE run_id = :run_id
  AND (cancel_requested_at IS NULL OR :status <> 'running')) = :fence

-- name: get_call
SELECT {call}
FROM tool_calls WHERE call_no = :call_no

-- name: get_call_by_id
SELECT {call}
FROM tool_calls WHERE tool_call_id = :tool_call_id

-- name: get_call_by_dedupe
SELECT {call}
FROM tool_calls WHERE dedupe_key = :dedupe_key AND NOT (status = 'cancelled' AND same_as IS NULL)
  AND NOT (status = 'failed' AND error_code = 'challenged')

-- name: index_calls
SELECT call_no, tool_call_id, tool_namespace, tool_name, normalized_args_hash, branch, parent_call_id, same_as,
  (status = 'cancelled' AND same_as IS NULL) OR (status = 'failed' AND error_code IS 'challenged'),
  parent_call_id IS NOT NULL AND (SELECT outer_call.status IN ('succeeded', 'failed')
    AND outer_call.tool_namespace <> 'model' FROM tool_calls outer_call
    WHERE outer_call.tool_call_id = tool_calls.parent_call_id)
FROM tool_calls WHERE run_id = :run_id ORDER BY call_no

-- name: adopt_call
UPDATE tool_calls SET parent_call_id = :parent_call_id, branch = :branch, updated_at = :now
WHERE call_no = :call_no AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: let_go_call
UPDATE tool_calls SET parent_call_id = NULL, updated_at = :now
WHERE call_no = :call_no AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: open_calls
SELECT {call}
FROM tool_calls WHERE run_id = :run_id AND status IN ('prepared','awaiting_approval','running','in_doubt')
ORDER BY call_no

-- name: kin_calls
SELECT {call}
FROM tool_calls WHERE run_id = :run_id AND tool_name = :tool_name AND tool_namespace = :namespace ORDER BY call_no

-- name: near_calls
SELECT {call}
FROM tool_calls
WHERE run_id = :run_id AND tool_name = :tool_name AND tool_namespace = :namespace AND call_no <> :call_no
  AND (normalized_args_hash IN (:args_hash, :edited_hash) OR edited_args_hash IN (:args_hash, :edited_hash)
    OR effect_scope IN (:effect_scope, :edited_scope) OR edited_scope IN (:effect_scope, :edited_scope)
    OR repeat_of = :cited OR call_no IN (SELECT value FROM json_each(:listed)))
ORDER BY call_no

-- name: refless_kin
SELECT {call}
FROM tool_calls
WHERE tool_name = :tool_name AND tool_namespace = :namespace AND status = 'succeeded'
  AND external_correlation_id IS NULL AND call_no <> :call_no AND simulated = 0 AND inherited_from IS NULL
  AND (normalized_args_hash IN (:args_hash, :edited_hash) OR edited_args_hash IN (:args_hash, :edited_hash)
    OR effect_scope IN (:effect_scope, :edited_scope) OR edited_scope IN (:effect_scope, :edited_scope)
    OR (:effect_scope IS NULL AND effect_scope IS NULL AND (run_id = :run_id
      OR tool_call_id IN (SELECT inherited_from FROM tool_calls WHERE run_id = :run_id AND inherited_from IS NOT NULL))))
ORDER BY call_no DESC LIMIT :limit

-- name: stored_response
SELECT response_ref FROM tool_calls WHERE call_no = :call_no

-- name: stored_request
SELECT request_ref FROM tool_calls WHERE call_no = :call_no

-- name: start_call
UPDATE tool_calls SET status = 'running', attempt = attempt + 1, fence = :fence, started_at = :now, updated_at = :now,
  finished_at = NULL, not_before = NULL, error_code = NULL, error_detail = NULL, repeat_of = coalesce(:repeat_of, repeat_of),
  key_expires_at = coalesce(key_expires_at, :key_expires_at)
WHERE call_no = :call_no AND status = :status
  AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id AND cancel_requested_at IS NULL) = :fence

-- name: take_back_call
UPDATE tool_calls SET status = 'prepared', attempt = attempt - 1, started_at = NULL, updated_at = :now, repeat_of = NULL
WHERE call_no = :call_no AND status = :status
  AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: succeed_call
UPDATE tool_calls SET status = 'succeeded', response_ref = :response, external_correlation_id = coalesce(:ref, handle),
  finished_at = :now, updated_at = :now, error_code = NULL, error_detail = NULL,
  delivered_at = CASE WHEN :delivered_seq IS NULL THEN NULL ELSE :now END, delivered_seq = :delivered_seq
WHERE call_no = :call_no AND status = :status
  AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: move_call
UPDATE tool_calls SET status = :to_status, updated_at = :now, finished_at = :finished_at, not_before = :not_before,
  error_code = :error_code, error_detail = :error_detail, same_as = :same_as, caused_by_call_id = :caused_by,
  repeat_of = CASE WHEN :to_status IN ('prepared', 'failed', 'cancelled') THEN NULL ELSE repeat_of END
WHERE call_no = :call_no AND status = :status
  AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: challenge_call
UPDATE tool_calls SET status = 'failed', error_code = 'challenged', error_detail = :error_detail,
  response_ref = :response, finished_at = :now, updated_at = :now
WHERE call_no = :call_no AND status = :status
  AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: amend_receipt
UPDATE tool_calls SET response_ref = :response, external_correlation_id = coalesce(external_correlation_id, :ref),
  updated_at = :now
WHERE call_no = :call_no AND status = 'succeeded' AND response_ref = 'null'
  AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: told_happened
SELECT {call}
FROM tool_calls WHERE run_id = :run_id AND status = 'succeeded' AND response_ref = 'null' AND EXISTS (
  SELECT 1 FROM evidence e WHERE e.tool_call_id = tool_calls.tool_call_id AND e.kind = 'verdict' AND e.says = 'happened')
ORDER BY call_no

-- name: bind_turn_call
INSERT OR REPLACE INTO turn_calls (parent_call_id, call_index, tool_call_id, adopted)
SELECT :parent_call_id, :call_index, :tool_call_id, :adopted FROM tool_calls
WHERE tool_call_id = :parent_call_id AND run_id = :run_id
  AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: unbind_turn_calls
DELETE FROM turn_calls WHERE tool_call_id = :tool_call_id
  AND (SELECT run_id FROM tool_calls WHERE tool_call_id = turn_calls.parent_call_id) = :run_id
  AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: get_turn_call
SELECT c.call_no, t.adopted FROM turn_calls t JOIN tool_calls c ON c.tool_call_id = t.tool_call_id
WHERE t.parent_call_id = :parent_call_id AND t.call_index = :call_index

-- name: edit_request
UPDATE tool_calls SET request_ref = :request, edited_args_hash = :edited_args_hash, edited_scope = :edited_scope,
  updated_at = :now
WHERE call_no = :call_no AND status = 'awaiting_approval' AND attempt = 0
  AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: note_sent_request
UPDATE tool_calls SET request_ref = :request, edited_args_hash = :edited_args_hash, edited_scope = :edited_scope,
  updated_at = :now
WHERE call_no = :call_no AND status = 'prepared' AND attempt = 0
  AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: extend_validity
UPDATE tool_calls SET valid_until = :valid_until, updated_at = :now
WHERE call_no = :call_no AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: set_handle
UPDATE tool_calls SET handle = :handle, updated_at = :now
WHERE call_no = :call_no AND status NOT IN ('succeeded','failed','cancelled','abandoned')
  AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: ref_owner
SELECT tool_call_id FROM tool_calls
WHERE tool_name = :tool_name AND external_correlation_id = :ref AND status = 'succeeded'

-- name: call_cause
SELECT caused_by_call_id FROM tool_calls WHERE tool_call_id = :tool_call_id

-- name: add_evidence
INSERT INTO evidence (tool_call_id, kind, at, actor, attempt, says, detail, ref)
VALUES (:tool_call_id, :kind, :now, :actor, :attempt, :says, :detail, :ref)

-- name: list_evidence
SELECT kind, at, actor, attempt, says, detail, ref FROM evidence WHERE tool_call_id = :tool_call_id ORDER BY evidence_no

-- name: insert_approval
INSERT INTO approvals (approval_id, run_id, tool_call_id, kind, status, request_hash, summary, detail, created_at,
  expires_at)
SELECT :approval_id, :run_id, :tool_call_id, :kind, 'open', :request_hash, :summary, :detail, :now, :expires_at
WHERE (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: open_approval_of_call
SELECT {question}
FROM approvals WHERE tool_call_id = :tool_call_id AND status = 'open'

-- name: get_approval
SELECT {question}
FROM approvals WHERE approval_id = :approval_id

-- name: open_approvals
SELECT {question}
FROM approvals WHERE status = 'open' AND (:run_id IS NULL OR run_id = :run_id) ORDER BY approval_no

-- name: expired_approvals
SELECT {question}
FROM approvals WHERE status = 'open' AND kind = 'approval' AND expires_at <= :now ORDER BY approval_no

-- name: supersede_approval
UPDATE approvals SET superseded_by = :superseded_by
WHERE tool_call_id = :tool_call_id AND status = 'open' AND kind = 'approval' AND superseded_by IS NOT :superseded_by
  AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: approvals_of_call
SELECT {question}
FROM approvals WHERE tool_call_id = :tool_call_id ORDER BY approval_no

-- name: close_approval
UPDATE approvals SET status = :status, decided_at = :now, actor = :actor, answer = :answer,
  request_hash = coalesce(:request_hash, request_hash)
WHERE approval_id = :approval_id AND status = 'open'
  AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: close_approval_of_call
UPDATE approvals SET status = 'closed', decided_at = :now, actor = :actor, answer = :answer
WHERE tool_call_id = :tool_call_id AND status = 'open'
  AND run_id = :run_id AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: close_approvals_of_run
UPDATE approvals SET status = 'closed', decided_at = :now, actor = :actor, answer = :answer
WHERE run_id = :run_id AND status = 'open' AND kind <> 'in_doubt'
  AND (tool_call_id IS NULL OR detail LIKE '{"left_out":%')
  AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: tools_of_calls
SELECT call_no, tool_call_id, tool_namespace, tool_name FROM tool_calls
WHERE (:run_id IS NULL OR run_id = :run_id)
  AND tool_namespace NOT IN ('memo','model','agent','timer','ask','critic')
ORDER BY call_no

-- name: count_calls
SELECT status, count(*) FROM tool_calls
WHERE run_id = :run_id AND tool_namespace NOT IN ('memo','model','agent','timer','ask','critic')
GROUP BY status ORDER BY status

-- name: count_effects
SELECT count(*) FROM tool_calls WHERE run_id = :run_id AND tool_name = :tool_name AND status = 'succeeded'

-- name: count_duplicates_found
SELECT count(*) FROM evidence e JOIN tool_calls c ON c.tool_call_id = e.tool_call_id
WHERE c.run_id = :run_id AND e.says = 'duplicate_found'

-- name: public_call
SELECT {public}
FROM tool_calls WHERE tool_call_id = :tool_call_id

-- name: public_calls
SELECT {public}
FROM tool_calls
WHERE (:inner OR tool_namespace NOT IN ('memo','model','agent','timer','ask','critic'))
  AND (:status IS NULL OR status = :status)
  AND (:side_effect_class IS NULL OR side_effect_class = :side_effect_class)
  AND (:tool IS NULL OR tool_name GLOB :tool) AND (:since IS NULL OR updated_at >= :since)
ORDER BY call_no LIMIT :limit

-- name: public_calls_of_run
SELECT {public}
FROM tool_calls
WHERE run_id = :run_id
  AND (:inner OR tool_namespace NOT IN ('memo','model','agent','timer','ask','critic'))
  AND (:status IS NULL OR status = :status)
  AND (:side_effect_class IS NULL OR side_effect_class = :side_effect_class)
  AND (:tool IS NULL OR tool_name GLOB :tool) AND (:since IS NULL OR updated_at >= :since)
ORDER BY call_no LIMIT :limit

-- name: add_artifact
INSERT OR REPLACE INTO artifacts (run_id, path, sha256, size_bytes, created_at, tool_call_id)
SELECT :run_id, :path, :sha256, :size_bytes, :now, :tool_call_id
WHERE (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence
  AND :sha256 IS NOT (SELECT sha256 FROM artifacts WHERE run_id = :run_id AND path = :path
    ORDER BY artifact_no DESC LIMIT 1)

-- name: point_at_artifact
UPDATE runs SET final_artifact_ref = :path, updated_at = max(updated_at, :now)
WHERE run_id = :run_id AND lease_fence = :fence

-- name: list_artifacts
SELECT path, sha256, size_bytes, created_at FROM artifacts WHERE run_id = :run_id ORDER BY artifact_no

-- name: add_payload
INSERT OR IGNORE INTO payloads (sha256, bytes) VALUES (:sha256, :bytes)

-- name: get_payload
SELECT bytes FROM payloads WHERE sha256 = :sha256

-- name: get_meta
SELECT value FROM meta WHERE key = :key

-- name: witness_key
INSERT INTO meta (key, value) VALUES ('secrets_key', :value) ON CONFLICT (key) DO NOTHING

-- name: set_meta
INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: newest_time
SELECT max(moment) FROM (
  SELECT max(updated_at) AS moment FROM runs
  UNION ALL SELECT updated_at FROM (SELECT updated_at FROM tool_calls ORDER BY call_no DESC LIMIT 1)
  UNION ALL SELECT at FROM (SELECT at FROM evidence ORDER BY evidence_no DESC LIMIT 1)
)

-- name: set_wait_reason
UPDATE runs SET reason = :reason, updated_at = max(updated_at, :now)
WHERE run_id = :run_id AND lease_fence = :fence AND status = 'waiting'

-- name: unsealed_calls
SELECT {settled} FROM tool_calls WHERE tool_call_id IN (SELECT tool_call_id FROM unsealed WHERE run_id = :run_id)
ORDER BY call_no

-- name: calls_not_looked_at
WITH RECURSIVE due (number, due_id) AS (
  SELECT sealed_calls + 1, run_id || '.' || (sealed_calls + 1) FROM runs WHERE run_id = :run_id
  UNION ALL SELECT number + 1, :run_id || '.' || (number + 1) FROM due
  WHERE EXISTS (SELECT 1 FROM tool_calls c WHERE c.tool_call_id = due_id)
)
SELECT {settled} FROM due CROSS JOIN tool_calls ON tool_call_id = due_id

-- name: last_seal
SELECT seal_no, chain_sha256 FROM seals ORDER BY seal_no DESC LIMIT 1

-- name: insert_seals
INSERT INTO seals (tool_call_id, sealed_at, status, receipt_sha256, row_sha256, chain_sha256)
SELECT value ->> 0, :now, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(:entries) ORDER BY key

-- name: mark_sealed
UPDATE runs SET sealed_calls = max(sealed_calls, :number) WHERE run_id = :run_id

-- name: leave_unsealed
INSERT OR IGNORE INTO unsealed (run_id, tool_call_id) SELECT :run_id, value FROM json_each(:calls)

-- name: was_sealed
DELETE FROM unsealed WHERE run_id = :run_id AND tool_call_id IN (SELECT value FROM json_each(:calls))

-- name: seal_again
INSERT OR IGNORE INTO unsealed (run_id, tool_call_id) VALUES (:run_id, :tool_call_id)

-- name: open_budget
INSERT OR IGNORE INTO run_budgets (run_id, charged_to, tool_calls, steps)
SELECT :run_id, :charged_to,
  (SELECT count(*) FROM tool_calls WHERE run_id = :run_id AND tool_namespace NOT IN ('memo','model','agent','timer','ask','critic')
    AND inherited_from IS NULL AND (status IN ('running','in_doubt','succeeded','abandoned') OR (status = 'failed' AND attempt > 0))),
  (SELECT count(*) FROM run_steps WHERE run_id = :run_id AND step_index > 0
    AND status NOT IN ('ready','skipped') AND (SELECT parent_run_id FROM runs WHERE run_id = :run_id) IS NULL)

-- name: get_budget
SELECT b.tool_calls, b.steps, b.tokens, b.usd_micros, b.same_errors, b.last_error, b.last_error_tool,
  (SELECT total(active_seconds) FROM runs WHERE run_id = b.run_id
    OR run_id IN (SELECT run_id FROM run_budgets WHERE charged_to = b.run_id)),
  own.charged_to IS NOT NULL OR EXISTS (SELECT 1 FROM run_budgets WHERE charged_to = b.run_id)
FROM run_budgets own JOIN run_budgets b ON b.run_id = coalesce(own.charged_to, own.run_id)
WHERE own.run_id = :run_id

-- name: charge_usage
UPDATE run_budgets SET tokens = tokens + :tokens, usd_micros = usd_micros + :usd_micros
WHERE run_id = (SELECT coalesce(charged_to, run_id) FROM run_budgets WHERE run_id = :run_id)
  AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: note_error
UPDATE run_budgets SET same_errors = :count, last_error = :error, last_error_tool = :tool_name
WHERE run_id = (SELECT coalesce(charged_to, run_id) FROM run_budgets WHERE run_id = :run_id)
  AND (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: charge_time
UPDATE runs SET active_seconds = active_seconds + :active_seconds, updated_at = max(updated_at, :now)
WHERE run_id = :run_id AND lease_fence = :fence

-- name: add_grant
INSERT INTO run_grants (run_id, at, actor, kind, amount, approval_id)
SELECT :run_id, :now, :actor, :kind, :amount, :approval_id
WHERE (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence

-- name: expired_calls
SELECT call_no FROM tool_calls
WHERE run_id = :run_id AND status = 'failed' AND error_code = 'denied'
  AND substr(error_detail, 1, length(:because)) = :because
ORDER BY call_no

-- name: read_calls
SELECT call_no FROM tool_calls
WHERE run_id = :run_id AND side_effect_class = 'read_only' AND status = 'succeeded' ORDER BY call_no

-- name: list_grants
SELECT at, actor, kind, amount, approval_id FROM run_grants WHERE run_id = :run_id ORDER BY grant_no

-- name: extend_deadline
UPDATE runs SET deadline_at = :deadline_at, updated_at = max(updated_at, :now)
WHERE run_id = :run_id AND lease_fence = :fence

-- name: meet_condition
INSERT INTO run_conditions (run_id, condition, at, evidence)
SELECT :run_id, :condition, :now, :evidence
WHERE (SELECT lease_fence FROM runs WHERE run_id = :run_id) = :fence
ON CONFLICT (run_id, condition) DO UPDATE SET at = excluded.at, evidence = excluded.evidence

-- name: list_conditions
SELECT condition, at, evidence FROM run_conditions WHERE run_id = :run_id ORDER BY condition

-- name: running_runs
SELECT r.run_id, r.lease_owner, r.lease_expires_at,
  (SELECT l.ended_at FROM run_attempts l WHERE l.run_id = r.run_id AND l.fence = r.lease_fence)
FROM runs r WHERE r.status = 'running' ORDER BY r.run_no

-- name: late_runs
SELECT run_id, deadline_at FROM runs WHERE status IN ('waiting', 'queued') AND deadline_at <= :now ORDER BY run_no

-- name: audit_calls
SELECT c.call_no, {c_settled}, c.occurrence, c.effect_scope, c.prepared_at, r.sealed_calls,
  EXISTS (SELECT 1 FROM unsealed u WHERE u.run_id = c.run_id AND u.tool_call_id = c.tool_call_id),
  (SELECT coalesce(max(e.attempt), 0) FROM evidence e WHERE e.tool_call_id = c.tool_call_id),
  (c.same_as IS NULL OR EXISTS (SELECT 1 FROM tool_calls o WHERE o.tool_call_id = c.same_as))
    AND (c.repeat_of IS NULL OR EXISTS (SELECT 1 FROM tool_calls o WHERE o.tool_call_id = c.repeat_of)),
  EXISTS (SELECT 1 FROM approvals a WHERE a.tool_call_id = c.tool_call_id AND a.status = 'open'),
  r.status, s.status, s.receipt_sha256, s.row_sha256
FROM tool_calls c CROSS JOIN runs r ON r.run_id = c.run_id
  LEFT JOIN seals s ON s.seal_no = (SELECT max(n.seal_no) FROM seals n WHERE n.tool_call_id = c.tool_call_id)
WHERE :run_id IS NULL OR c.run_id = :run_id
ORDER BY c.call_no

-- name: audit_runs
SELECT r.run_id, r.status, r.reason, r.result_ref, r.error_code, r.lease_owner, r.lease_expires_at, r.lease_fence,
  r.attempt, r.sealed_calls,
  (SELECT count(*) FROM tool_calls c WHERE c.run_id = r.run_id),
  (SELECT count(*) FROM tool_calls c WHERE c.run_id = r.run_id
    AND (c.status = 'awaiting_approval' OR (c.status = 'prepared' AND c.attempt = 0))),
  (SELECT count(*) FROM tool_calls c WHERE c.run_id = r.run_id AND c.status = 'running'),
  (SELECT count(*) FROM tool_calls c WHERE c.run_id = r.run_id AND c.status = 'in_doubt'),
  (SELECT count(*) FROM run_attempts l WHERE l.run_id = r.run_id),
  (SELECT coalesce(max(l.fence), 0) FROM run_attempts l WHERE l.run_id = r.run_id),
  (SELECT count(*) FROM run_attempts l WHERE l.run_id = r.run_id AND l.ended_at IS NULL),
  (SELECT count(*) FROM approvals a WHERE a.run_id = r.run_id AND a.status = 'open')
FROM runs r WHERE :run_id IS NULL OR r.run_id = :run_id ORDER BY r.run_no

-- name: audit_seals
SELECT s.seal_no, s.tool_call_id, s.sealed_at, s.status, s.row_sha256, s.chain_sha256, p.status, p.receipt_sha256
FROM seals s LEFT JOIN seals p ON p.seal_no =
  (SELECT max(n.seal_no) FROM seals n WHERE n.tool_call_id = s.tool_call_id AND n.seal_no < s.seal_no)
ORDER BY s.seal_no

-- name: audit_payloads
SELECT sha256, bytes FROM payloads

-- name: audit_marked_texts
SELECT 'run' AS kind, run_id AS subject, 'specification' AS what, run_spec_json AS text FROM runs
WHERE instr(run_spec_json, '‹redacted:') AND (:run_id IS NULL OR run_id = :run_id)
UNION ALL SELECT 'run', run_id, 'result', result_ref FROM runs
WHERE instr(result_ref, '‹redacted:') AND (:run_id IS NULL OR run_id = :run_id)
UNION ALL SELECT 'call', tool_call_id, 'request', request_ref FROM tool_calls
WHERE instr(request_ref, '‹redacted:') AND (:run_id IS NULL OR run_id = :run_id)
UNION ALL SELECT 'call', tool_call_id, 'receipt', response_ref FROM tool_calls
WHERE instr(response_ref, '‹redacted:') AND (:run_id IS NULL OR run_id = :run_id)
UNION ALL SELECT 'question', approval_id, 'detail', detail FROM approvals
WHERE instr(detail, '‹redacted:') AND substr(detail, 1, 1) = '{' AND (:run_id IS NULL OR run_id = :run_id)
UNION ALL SELECT 'checkpoint', checkpoint_id, 'snapshot', state_snapshot_json FROM checkpoints
WHERE instr(state_snapshot_json, '‹redacted:') AND (:run_id IS NULL OR run_id = :run_id)
UNION ALL SELECT 'call', e.tool_call_id, 'evidence ' || e.evidence_no, e.detail
FROM evidence e JOIN tool_calls c ON c.tool_call_id = e.tool_call_id
WHERE instr(e.detail, '‹redacted:') AND substr(e.detail, 1, 1) = '{' AND (:run_id IS NULL OR c.run_id = :run_id)

-- name: audit_missing_payloads
SELECT tool_call_id, ref FROM (
  SELECT call_no, tool_call_id, request_ref AS ref FROM tool_calls WHERE :run_id IS NULL OR run_id = :run_id
  UNION ALL
  SELECT call_no, tool_call_id, response_ref FROM tool_calls WHERE :run_id IS NULL OR run_id = :run_id)
WHERE substr(ref, 1, 7) = 'sha256:' AND substr(ref, -7) <> ' pruned'
  AND NOT EXISTS (SELECT 1 FROM payloads WHERE sha256 = substr(ref, 8))

-- name: audit_refs
SELECT tool_name, external_correlation_id, min(tool_call_id), max(tool_call_id) FROM tool_calls
WHERE external_correlation_id IS NOT NULL AND status = 'succeeded'
GROUP BY tool_name, external_correlation_id HAVING count(*) > 1

-- name: audit_evidence
SELECT e.evidence_no, e.tool_call_id, e.at, p.at FROM evidence e JOIN tool_calls c ON c.tool_call_id = e.tool_call_id
  JOIN evidence p ON p.evidence_no =
  (SELECT max(n.evidence_no) FROM evidence n WHERE n.tool_call_id = e.tool_call_id AND n.evidence_no < e.evidence_no)
WHERE e.at < p.at AND (:run_id IS NULL OR c.run_id = :run_id) ORDER BY e.evidence_no

-- name: audit_duplicates
SELECT c.tool_call_id, c.tool_name, c.external_correlation_id, c.response_ref, e.at, e.ref, e.detail
FROM evidence e JOIN tool_calls c ON c.tool_call_id = e.tool_call_id
WHERE e.says = 'duplicate_found' AND (:run_id IS NULL OR c.run_id = :run_id) ORDER BY e.evidence_no

-- name: audit_in_doubt
SELECT c.tool_call_id, c.tool_name, c.started_at, r.status FROM tool_calls c JOIN runs r ON r.run_id = c.run_id
WHERE c.status = 'in_doubt' AND (:run_id IS NULL OR c.run_id = :run_id) ORDER BY c.call_no

-- name: audit_artifacts
SELECT a.run_id, r.workspace, a.path, a.sha256, a.size_bytes FROM artifacts a JOIN runs r ON r.run_id = a.run_id
WHERE (:run_id IS NULL OR a.run_id = :run_id)
  AND NOT EXISTS (SELECT 1 FROM artifacts n WHERE n.run_id = a.run_id AND n.path = a.path
    AND n.artifact_no > a.artifact_no)
ORDER BY a.artifact_no

-- name: audit_file
PRAGMA integrity_check

-- name: audit_foreign_keys
PRAGMA foreign_key_check

-- name: audit_schema
SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' AND name <> 'schema_migrations'

-- columns: origin
run_mode, parent_run_id, forked_from, fork_effects, last_job_prompt, provider_session_id, provider_session_forked_from

-- name: get_origin
SELECT {origin}
FROM runs WHERE run_id = :run_id

-- name: set_origin
UPDATE runs SET run_mode = :run_mode, parent_run_id = :parent_run_id, forked_from = :forked_from,
  fork_effects = :fork_effects, last_job_prompt = :last_job_prompt,
  provider_session_forked_from = :provider_session_forked_from,
  fingerprint_json = (SELECT p.fingerprint_json FROM runs p WHERE p.run_id = :parent_run_id)
WHERE run_id = :run_id AND status = 'queued' AND attempt = 0

-- name: set_provider_session
UPDATE runs SET provider_session_id = :provider_session_id, updated_at = max(updated_at, :now)
WHERE run_id = :run_id AND lease_fence = :fence

-- name: set_last_job_prompt
UPDATE runs SET last_job_prompt = :last_job_prompt, updated_at = max(updated_at, :now)
WHERE run_id = :run_id AND lease_fence = :fence

-- name: get_fingerprint
SELECT fingerprint_json FROM runs WHERE run_id = :run_id

-- name: set_fingerprint
UPDATE runs SET fingerprint_json = :fingerprint WHERE run_id = :run_id AND lease_fence = :fence

-- name: set_changes
UPDATE run_attempts SET changes_json = :changes WHERE run_id = :run_id AND fence = :fence

-- name: questions_about_run
SELECT {question}
FROM approvals WHERE run_id = :run_id AND tool_call_id IS NULL ORDER BY approval_no

-- name: list_changes
SELECT attempt, changes_json FROM run_attempts WHERE run_id = :run_id AND changes_json IS NOT NULL ORDER BY attempt

-- columns: checkpoint
checkpoint_id, run_id, step_id, created_at, checkpoint_type, state_snapshot_json, cursor_json, provider_session_id

-- name: get_checkpoint
SELECT {checkpoint}
FROM checkpoints WHERE checkpoint_id = :checkpoint_id

-- name: list_checkpoints
SELECT {checkpoint}
FROM checkpoints WHERE run_id = :run_id ORDER BY checkpoint_no

-- name: last_checkpoint
SELECT {checkpoint}
FROM checkpoints WHERE run_id = :run_id ORDER BY checkpoint_no DESC LIMIT 1

-- name: list_forks
SELECT run_id FROM runs WHERE parent_run_id = :run_id ORDER BY run_no

-- name: calls_of_run
SELECT {call}
FROM tool_calls WHERE run_id = :run_id ORDER BY call_no

-- name: inherit_step
INSERT INTO run_steps (step_id, run_id, step_index, created_at, updated_at, status, phase, name, occurrence)
SELECT :step_id, :run_id, step_index, :now, :now, :status, phase, name, occurrence
FROM run_steps WHERE step_id = :source

-- name: inherit_call
INSERT INTO tool_calls (tool_call_id, run_id, step_id, created_at, updated_at, tool_name, raw_tool_name, tool_namespace,
  side_effect_class, replay_policy, guarantee, policy_rule, normalized_args_hash, effect_scope, occurrence,
  idempotency_key, status, attempt, fence, branch, parent_call_id, call_index, repeat_of, same_as, request_ref,
  response_ref, prepared_at, started_at, finished_at, valid_until, error_code, error_detail, edited_args_hash,
  edited_scope, simulated, inherited_from)
SELECT :tool_call_id, :run_id, :step_id, :now, :now, tool_name, raw_tool_name, tool_namespace, side_effect_class,
  replay_policy, guarantee, policy_rule, normalized_args_hash, effect_scope, occurrence, :idempotency_key, status,
  attempt, 0, branch, :parent_call_id, call_index, :repeat_of, :same_as, request_ref,
  coalesce(:response, response_ref), prepared_at, started_at, finished_at, valid_until, error_code, error_detail,
  edited_args_hash, edited_scope,
  simulated, coalesce(inherited_from, tool_call_id)
FROM tool_calls WHERE call_no = :source

-- name: handles_of_run
SELECT t.parent_call_id, t.call_index, t.tool_call_id, t.adopted
FROM turn_calls t JOIN tool_calls c ON c.tool_call_id = t.parent_call_id WHERE c.run_id = :run_id

-- name: inherit_handle
INSERT INTO turn_calls (parent_call_id, call_index, tool_call_id, adopted)
VALUES (:parent_call_id, :call_index, :tool_call_id, :adopted)

-- name: own_of_inherited
SELECT {call}
FROM tool_calls WHERE run_id = :run_id AND inherited_from = :origin

-- name: count_inherited
SELECT count(*) FROM tool_calls WHERE run_id = :run_id AND inherited_from IS NOT NULL
  AND tool_namespace NOT IN ('memo','model','agent','timer','ask','critic')

-- name: count_simulated
SELECT count(*) FROM tool_calls WHERE run_id = :run_id AND simulated = 1 AND inherited_from IS NULL
  AND status IN ('succeeded','failed') AND started_at IS NOT NULL
  AND tool_namespace NOT IN ('memo','model','agent','timer','ask','critic')

-- name: ancestors
WITH RECURSIVE line(run_id, depth) AS (
  SELECT parent_run_id, 1 FROM runs WHERE run_id = :run_id AND parent_run_id IS NOT NULL
  UNION SELECT r.parent_run_id, line.depth + 1 FROM line JOIN runs r ON r.run_id = line.run_id
  WHERE r.parent_run_id IS NOT NULL
)
SELECT run_id FROM line ORDER BY depth

-- name: effects_elsewhere
SELECT {call}
FROM tool_calls WHERE run_id = :ancestor AND tool_name = :tool_name AND tool_namespace = :namespace
  AND side_effect_class IN ('external','memory') AND simulated = 0 AND inherited_from IS NULL AND call_no > :after
  AND tool_call_id NOT IN
    (SELECT inherited_from FROM tool_calls WHERE run_id = :run_id AND inherited_from IS NOT NULL)
ORDER BY call_no

-- name: later_effects
SELECT {call}
FROM tool_calls WHERE run_id = :ancestor AND side_effect_class IN ('external','memory') AND simulated = 0
  AND inherited_from IS NULL AND status IN ('running','in_doubt','succeeded','abandoned')
  AND tool_call_id NOT IN
    (SELECT inherited_from FROM tool_calls WHERE run_id = :run_id AND inherited_from IS NOT NULL)
ORDER BY call_no

-- name: equal_elsewhere
SELECT {call}
FROM tool_calls WHERE run_id = :ancestor AND normalized_args_hash = :args_hash AND tool_name = :tool_name
  AND tool_namespace = :namespace AND inherited_from IS NULL ORDER BY call_no

-- What a watcher reads. Rows that are new are found by their numbers and rows that may still move by the index of what is
-- open: the cost of a look does not grow with the history of the run.

-- name: data_version
PRAGMA data_version

-- name: watch_run
SELECT run_id, name, status, reason, attempt, created_at, updated_at, lease_owner, lease_expires_at, active_seconds,
  error_code, error_detail, lease_fence, run_spec_json
FROM runs WHERE run_id = :run_id

-- name: watch_steps
SELECT step_index, step_id, name, phase, status, attempt, created_at, updated_at, error_code
FROM run_steps WHERE run_id = :run_id
  AND (step_index > :after OR status IN ('ready','running','blocked') OR step_id IN (SELECT value FROM json_each(:known))
    OR updated_at >= :since)
ORDER BY step_index

-- name: watch_new_calls
SELECT {watched}
FROM tool_calls WHERE call_no > :after AND +run_id = :run_id ORDER BY call_no LIMIT :limit

-- name: watch_open_calls
SELECT {watched}
FROM tool_calls WHERE run_id = :run_id AND status IN ('prepared','awaiting_approval','running','in_doubt')
ORDER BY call_no

-- name: watch_call
SELECT {watched}
FROM tool_calls WHERE call_no = :call_no

-- name: watch_calls_of_life
SELECT {watched}
FROM tool_calls WHERE run_id = :run_id AND fence >= :fence AND call_no <= :last ORDER BY call_no

-- name: watch_first_call
SELECT coalesce(min(call_no), 0) FROM tool_calls WHERE run_id = :run_id

-- name: watch_last_call
SELECT {watched}
FROM tool_calls WHERE tool_call_id = :run_id || '.' || (SELECT count(*) FROM tool_calls WHERE run_id = :run_id)

-- name: watch_evidence
SELECT e.evidence_no, e.tool_call_id, e.kind, e.at, e.actor, e.attempt, e.says, e.ref
FROM evidence e CROSS JOIN tool_calls c ON c.tool_call_id = e.tool_call_id
WHERE e.evidence_no > :after AND c.run_id = :run_id ORDER BY e.evidence_no

-- name: watch_questions
SELECT approval_no, approval_id, tool_call_id, kind, status, summary, created_at, decided_at, actor, answer
FROM approvals WHERE +run_id = :run_id AND approval_no > :after ORDER BY approval_no

-- name: watch_question
SELECT approval_no, approval_id, tool_call_id, kind, status, summary, created_at, decided_at, actor, answer
FROM approvals WHERE approval_no = :approval_no

-- name: watch_checkpoints
SELECT checkpoint_no, checkpoint_id, step_id, created_at, checkpoint_type
FROM checkpoints WHERE run_id = :run_id AND checkpoint_no > :after ORDER BY checkpoint_no

-- name: watch_marks
SELECT (SELECT coalesce(max(call_no), 0) FROM tool_calls), (SELECT coalesce(max(evidence_no), 0) FROM evidence),
  (SELECT coalesce(max(approval_no), 0) FROM approvals),
  (SELECT coalesce(max(checkpoint_no), 0) FROM checkpoints WHERE run_id = :run_id),
  (SELECT coalesce(max(step_index), -1) FROM run_steps WHERE run_id = :run_id)

-- name: recent_calls
WITH RECURSIVE newest(n) AS (SELECT :last UNION ALL SELECT n - 1 FROM newest WHERE n > :first)
SELECT {call}
FROM newest JOIN tool_calls ON tool_call_id = :run_id || '.' || n ORDER BY n

-- name: newest_checkpoint
SELECT c.checkpoint_id, c.checkpoint_type, c.created_at, s.step_id, s.name, s.phase, s.step_index
FROM checkpoints c JOIN run_steps s ON s.step_id = c.step_id
WHERE c.run_id = :run_id ORDER BY c.checkpoint_no DESC LIMIT 1

-- name: newest_files
SELECT path, sha256, size_bytes, created_at, tool_call_id, count(*) OVER ()
FROM artifacts a WHERE run_id = :run_id
  AND artifact_no = (SELECT max(artifact_no) FROM artifacts b WHERE b.run_id = a.run_id AND b.path = a.path)
ORDER BY artifact_no DESC LIMIT :limit

-- name: final_artifact
SELECT final_artifact_ref FROM runs WHERE run_id = :run_id

-- name: class_counts
SELECT side_effect_class, status, count(*) FROM tool_calls
WHERE run_id = :run_id AND tool_namespace NOT IN ('memo','model','agent','timer','ask','critic') GROUP BY 1, 2

-- name: newest_effects
SELECT {call}, count(*) OVER ()
FROM tool_calls WHERE run_id = :run_id AND side_effect_class IN ('external','memory') AND status = 'succeeded'
ORDER BY call_no DESC LIMIT :limit

-- name: replayed_effects
SELECT {call}, count(*) OVER ()
FROM tool_calls WHERE run_id = :run_id AND side_effect_class IN ('external','memory') AND fence < :fence
  AND status IN ('succeeded', 'failed', 'abandoned') AND error_code IS NOT 'challenged'
  AND tool_call_id NOT IN (SELECT value FROM json_each(:unmet))
ORDER BY call_no DESC LIMIT :limit

-- name: settled_calls
SELECT {call}, count(*) OVER ()
FROM tool_calls WHERE run_id = :run_id AND status <> 'in_doubt' AND EXISTS (SELECT 1 FROM evidence e
  WHERE e.tool_call_id = tool_calls.tool_call_id
    AND (e.kind IN ('probe', 'reply') OR e.says IN ('lost', 'happened', 'did_not_happen', 'abandon')))
ORDER BY call_no DESC LIMIT :limit

-- name: challenged_calls
SELECT {call}, count(*) OVER ()
FROM tool_calls WHERE run_id = :run_id AND (error_code IS 'challenged' OR same_as IS NOT NULL OR EXISTS (
  SELECT 1 FROM approvals a WHERE a.tool_call_id = tool_calls.tool_call_id AND a.kind = 'challenge'))
ORDER BY call_no DESC LIMIT :limit

-- name: last_unmet
SELECT unmet_json FROM run_attempts WHERE run_id = :run_id ORDER BY attempt DESC LIMIT 1

-- name: newest_lives
SELECT {life}, count(*) OVER ()
FROM run_attempts WHERE run_id = :run_id ORDER BY attempt DESC LIMIT :limit

-- name: page_of_calls
SELECT {call}
FROM tool_calls WHERE run_id = :run_id AND call_no > :after ORDER BY call_no LIMIT :limit

-- name: page_of_questions
SELECT {question}
FROM approvals WHERE run_id = :run_id ORDER BY approval_no

-- name: verdicts_of_run
SELECT e.tool_call_id, e.kind, e.at, e.actor, e.attempt, e.says, e.detail, e.ref
FROM tool_calls c JOIN evidence e ON e.tool_call_id = c.tool_call_id
WHERE c.run_id = :run_id AND e.kind = 'verdict' ORDER BY e.evidence_no

-- name: whole_page_of_calls
SELECT {call}, request_ref, response_ref
FROM tool_calls WHERE run_id = :run_id AND call_no > :after ORDER BY call_no LIMIT :limit
-- name: run_pruned_at
SELECT pruned_at FROM runs WHERE run_id = :run_id

-- name: runs_to_prune
SELECT run_id, pruned_at IS NOT NULL FROM runs
WHERE bodies_left = 1 AND status IN ('succeeded','failed','cancelled') AND (pruned_at IS NOT NULL OR updated_at <= :before)
ORDER BY run_no

-- name: open_business
SELECT EXISTS (SELECT 1 FROM tool_calls WHERE run_id = :run_id
    AND status IN ('prepared','awaiting_approval','running','in_doubt')),
  EXISTS (SELECT 1 FROM approvals WHERE run_id = :run_id AND status = 'open')

-- name: forks_with_bodies
SELECT run_id FROM runs WHERE parent_run_id = :run_id AND bodies_left = 1 LIMIT 1

-- name: start_pruning
UPDATE runs SET pruned_at = :now, run_spec_json = '{}', result_ref = :result, error_detail = NULL,
  last_job_prompt = NULL
WHERE run_id = :run_id AND status IN ('succeeded','failed','cancelled') AND pruned_at IS NULL

-- name: end_pruning
UPDATE runs SET bodies_left = 0 WHERE run_id = :run_id AND pruned_at IS NOT NULL

-- name: stored_bodies
SELECT call_no, request_ref, response_ref,
  (SELECT coalesce(sum(length(detail)), 0) FROM evidence e WHERE e.tool_call_id = c.tool_call_id)
FROM tool_calls c
WHERE run_id = :run_id AND call_no > :after AND dedupe_key IS NULL
ORDER BY call_no LIMIT :limit

-- name: prune_call
UPDATE tool_calls SET request_ref = :request_mark, response_ref = :response_mark, error_detail = NULL
WHERE call_no = :call_no AND status IN ('succeeded','failed','cancelled','abandoned')
  AND (SELECT pruned_at FROM runs WHERE run_id = tool_calls.run_id) IS NOT NULL

-- name: prune_evidence
UPDATE evidence SET detail = NULL
WHERE detail IS NOT NULL AND tool_call_id = (SELECT tool_call_id FROM tool_calls WHERE call_no = :call_no)

-- name: prune_questions
UPDATE approvals SET summary = 'pruned', detail = NULL WHERE run_id = :run_id AND status <> 'open'

-- name: prune_checkpoints
UPDATE checkpoints SET state_snapshot_json = '{}', cursor_json = NULL WHERE run_id = :run_id

-- name: prune_steps
UPDATE run_steps SET output_ref = NULL, error_detail = NULL WHERE run_id = :run_id

-- name: prune_last_error
UPDATE run_budgets SET last_error = NULL WHERE run_id = :run_id

-- name: prune_conditions
UPDATE run_conditions SET evidence = NULL WHERE run_id = :run_id

-- name: drop_payload
DELETE FROM payloads WHERE sha256 = :sha256
  AND NOT EXISTS (SELECT 1 FROM tool_calls
    WHERE substr(request_ref, 1, 7) = 'sha256:' AND request_ref = 'sha256:' || :sha256)
  AND NOT EXISTS (SELECT 1 FROM tool_calls
    WHERE substr(response_ref, 1, 7) = 'sha256:' AND response_ref = 'sha256:' || :sha256)
