{{/* The alerts by name: (dict "release" name "at" thresholds). Each has a runbook of its name in docs/operations/runbooks. */}}
{{- define "dw.alerts" -}}
{{- $of := printf "dw_release=%q" .release -}}
DurableWorkflowBacklogAge:
  severity: warning
  for: 5m
  summary: {{ `Tasks of {{ $labels.workflow_namespace }}/{{ $labels.task_queue }} have waited for {{ $value | humanizeDuration }}.` | quote }}
  expr: >-
    max by (workflow_namespace, task_queue, kind) (dw_task_queue_oldest_ready_seconds{ {{- $of -}} }) > {{ .at.backlogAgeSeconds }}
DurableWorkflowLeaseExpiries:
  severity: warning
  for: 10m
  summary: {{ `{{ $value | humanizePercentage }} of the leased tasks run out of their lease ({{ $labels.kind }}).` | quote }}
  expr: >-
    sum by (kind) (rate(dw_lease_expiries_total{ {{- $of -}} }[10m]))
    / sum by (kind) (rate(dw_task_claims_total{ {{- $of -}} }[10m])) > {{ divf .at.leaseExpiryPercent 100 }}
DurableWorkflowStuckRuns:
  severity: warning
  for: 15m
  summary: {{ `{{ $value }} runs do not get on ({{ $labels.reason }}).` | quote }}
  expr: max by (reason) (dw_stuck_runs{ {{- $of -}} }) > 0
DurableWorkflowWakeLoss:
  severity: warning
  for: 5m
  summary: Wake signals are lost or late; work is found by looking once a second.
  expr: >-
    sum(rate(dw_wake_publish_failures_total{ {{- $of -}} }[5m])) > 0
    or histogram_quantile(0.95, sum by (le) (rate(dw_wake_lag_seconds_bucket{ {{- $of -}} }[5m]))) > {{ .at.wakeLagSeconds }}
DurableWorkflowSchedulerLag:
  severity: critical
  for: 2m
  summary: {{ `The oldest due {{ $labels.what }} is late by {{ $value | humanizeDuration }}.` | quote }}
  expr: >-
    max by (what) (dw_overdue_seconds{ {{- $of -}} ,what=~"timer|schedule|schedule_fire"}) > {{ .at.schedulerLagSeconds }}
DurableWorkflowDeadlineLag:
  severity: critical
  for: 2m
  summary: {{ `Leases and deadlines of tasks have been over for {{ $value | humanizeDuration }} and nobody has looked.` | quote }}
  expr: max(dw_overdue_seconds{ {{- $of -}} ,what="task_deadline"}) > {{ .at.deadlineLagSeconds }}
DurableWorkflowPoolSaturation:
  severity: warning
  for: 5m
  summary: {{ `The connections of {{ $labels.pod }} are all in use.` | quote }}
  expr: >-
    max by (pod) (dw_store_pool_in_use{ {{- $of -}} } / dw_store_pool_size{ {{- $of -}} }) >= {{ divf .at.poolPercent 100 }}
    or max by (pod) (dw_store_pool_waiting{ {{- $of -}} }) > 0
DurableWorkflowDatabaseUnreachable:
  severity: critical
  for: 2m
  summary: {{ `{{ $labels.pod }} does not reach Postgres.` | quote }}
  expr: max by (pod) (dw_readiness_failing{ {{- $of -}} ,check="database"}) > 0
DurableWorkflowMigrationPending:
  severity: critical
  for: 5m
  summary: {{ `{{ $labels.pod }} is not ready because the schema does not fit it.` | quote }}
  expr: max by (pod) (dw_readiness_failing{ {{- $of -}} ,check=~"migrations|default_namespace"}) > 0
DurableWorkflowAuthTrouble:
  severity: critical
  for: 5m
  summary: {{ `{{ $labels.pod }} cannot tell who its callers are.` | quote }}
  expr: >-
    max by (pod) (dw_readiness_failing{ {{- $of -}} ,check="auth"}) > 0
    or sum by (pod) (increase(dw_auth_signing_key_fetches_total{ {{- $of -}} ,outcome="failed"}[15m])) > 2
DurableWorkflowCertificateExpiry:
  severity: warning
  for: 1h
  summary: {{ `A certificate for {{ $labels.use }} ends within {{ $value | humanizeDuration }}.` | quote }}
  expr: >-
    min by (use) (dw_certificate_expiry_timestamp_seconds{ {{- $of -}} } - time()) < {{ mul (int .at.certificateDays) 86400 }}
DurableWorkflowInvariantBreach:
  severity: critical
  for: 0m
  summary: The server has refused to write a decision of its own; this is a fault of the server.
  expr: sum(increase(dw_engine_invariant_breaches_total{ {{- $of -}} }[15m])) > 0
{{- end -}}
