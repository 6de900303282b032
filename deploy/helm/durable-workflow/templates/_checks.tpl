{{/* What values mean together; everything that is wrong is said at once. */}}

{{/* Keys that this chart does not have (any more), with what to write instead. */}}
{{- define "dw.removedKeys" -}}
externalDatabase: "use postgres"
externalRedis: "use redis"
bootstrap: "use migrations"
worker: "the chart runs no workers; deploy your own against the worker plane"
config: "use settings, by the names of docs/reference/settings.md"
argocd: "use migrations.useHelmHooks: false and migrations.argoSyncWaves"
flux: "use migrations.enabled and workloads.enabled in two releases, the second of which depends on the first"
replicaCount: "use replicaCount of a role"
resources: "use resources of a role"
autoscaling: "use autoscaling of a role"
service: "use service of a role"
nodeSelector: "use global.nodeSelector, or nodeSelector of a role"
tolerations: "use global.tolerations, or tolerations of a role"
affinity: "use global.affinity, or affinity of a role"
extraEnv: "use settings, global.extraEnv, or extraEnv of a role"
commonLabels: "use global.commonLabels"
commonAnnotations: "use global.commonAnnotations"
priorityClassName: "use global.priorityClassName, or priorityClassName of a role"
{{- end -}}

{{- define "dw.checks" -}}
{{- $wrong := list -}}
{{- range $key, $fix := include "dw.removedKeys" . | fromYaml -}}
{{- if hasKey $.Values $key -}}
{{- $wrong = append $wrong (printf "%s is not a value of this chart: %s." $key $fix) -}}
{{- end -}}
{{- end -}}
{{- range $key := tuple "authToken" "workerToken" "operatorToken" "adminToken" -}}
{{- if hasKey $.Values.auth $key -}}
{{- $wrong = append $wrong (printf "auth.%s is not a value of this chart: secrets are never values; use auth.existingSecret and auth.secretKeys." $key) -}}
{{- end -}}
{{- end -}}
{{- if not $wrong -}}
{{- $wrong = concat (include "dw.storeChecks" . | fromYamlArray) (include "dw.roleChecks" . | fromYamlArray) (include "dw.envChecks" . | fromYamlArray) (include "dw.exposureChecks" . | fromYamlArray) -}}
{{- end -}}
{{- if $wrong -}}
{{- fail (printf "\n- %s" ($wrong | join "\n- ")) -}}
{{- end -}}
{{- end -}}

{{- define "dw.storeChecks" -}}
{{- $wrong := list -}}
{{- $pg := .Values.postgres -}}
{{- if and (not $pg.host) (not $pg.secretKeys.url) -}}
{{- $wrong = append $wrong "postgres.host is needed, or postgres.secretKeys.url: the chart brings no database." -}}
{{- end -}}
{{- if and (or $pg.secretKeys.password $pg.secretKeys.username $pg.secretKeys.url $pg.secretKeys.directUrl) (not $pg.existingSecret) -}}
{{- $wrong = append $wrong "postgres.existingSecret is needed for the keys in postgres.secretKeys." -}}
{{- end -}}
{{- if and (hasPrefix "verify-" $pg.tls.mode) (or (not $pg.tls.existingSecret) (not $pg.tls.caKey)) -}}
{{- $wrong = append $wrong (printf "postgres.tls.mode %s needs postgres.tls.existingSecret with the certificates that sign that of Postgres under postgres.tls.caKey; a weaker mode must be chosen knowingly." $pg.tls.mode) -}}
{{- end -}}
{{- range $name, $tls := dict "postgres" $pg.tls "redis" .Values.redis.tls -}}
{{- if ne (empty $tls.certKey) (empty $tls.keyKey) -}}
{{- $wrong = append $wrong (printf "%s.tls.certKey and %s.tls.keyKey belong together." $name $name) -}}
{{- end -}}
{{- end -}}
{{- if and (or .Values.redis.secretKeys.password .Values.redis.secretKeys.url) (not .Values.redis.existingSecret) -}}
{{- $wrong = append $wrong "redis.existingSecret is needed for the keys in redis.secretKeys." -}}
{{- end -}}
{{- if and (has .Values.auth.driver (list "token" "signature")) (not .Values.auth.existingSecret) -}}
{{- $wrong = append $wrong (printf "auth.existingSecret is needed for the driver %s: without a token or key no pod becomes ready." .Values.auth.driver) -}}
{{- end -}}
{{- if and (eq .Values.auth.driver "jwt") (or (not .Values.auth.jwt.issuer) (not .Values.auth.jwt.audience)) -}}
{{- $wrong = append $wrong "auth.jwt.issuer and auth.jwt.audience are needed for the driver jwt." -}}
{{- end -}}
{{- $budget := include "dw.budget" . | fromYaml -}}
{{- $allowed := sub ($pg.maxConnections | int) ($pg.reservedConnections | int) | int -}}
{{- if gt ($budget.total | int) $allowed -}}
{{- $wrong = append $wrong (printf "The roles may open %d connections, and postgres.maxConnections %d less postgres.reservedConnections %d allows %d (%s). Lower replicas, processes or poolSize, or raise postgres.maxConnections when Postgres allows more." ($budget.total | int) ($pg.maxConnections | int) ($pg.reservedConnections | int) $allowed ($budget.lines | join "; ")) -}}
{{- end -}}
{{- toYaml $wrong -}}
{{- end -}}

{{- define "dw.roleChecks" -}}
{{- $wrong := list -}}
{{- $least := add .Values.preStopSeconds (mul 2 .Values.drainSeconds) 10 | int -}}
{{- range $key, $facts := include "dw.roles" . | fromYaml -}}
{{- $role := index $.Values $key -}}
{{- $scaled := or $role.autoscaling.enabled $role.externalScaler -}}
{{- if lt ($role.terminationGracePeriodSeconds | int) $least -}}
{{- $wrong = append $wrong (printf "%s.terminationGracePeriodSeconds is %d and must be at least %d: preStopSeconds, twice drainSeconds and 10." $key ($role.terminationGracePeriodSeconds | int) $least) -}}
{{- end -}}
{{- if and $role.autoscaling.enabled $role.externalScaler -}}
{{- $wrong = append $wrong (printf "%s.autoscaling.enabled and %s.externalScaler contradict each other." $key $key) -}}
{{- end -}}
{{- if and $role.autoscaling.enabled (not $role.autoscaling.targetCPUUtilizationPercentage) (not $role.autoscaling.metric.name) -}}
{{- $wrong = append $wrong (printf "%s.autoscaling needs targetCPUUtilizationPercentage or metric.name." $key) -}}
{{- end -}}
{{- if gt ($role.autoscaling.minReplicas | int) ($role.autoscaling.maxReplicas | int) -}}
{{- $wrong = append $wrong (printf "%s.autoscaling.minReplicas must not exceed maxReplicas." $key) -}}
{{- end -}}
{{- if and (eq $key "scheduler") $scaled -}}
{{- $wrong = append $wrong "scheduler cannot be scaled automatically: one replica works and the others stand by." -}}
{{- end -}}
{{- $budget := $role.podDisruptionBudget -}}
{{- if and $budget.enabled (not (kindIs "invalid" $budget.minAvailable)) (not (kindIs "invalid" $budget.maxUnavailable)) -}}
{{- $wrong = append $wrong (printf "%s.podDisruptionBudget: set maxUnavailable to null when minAvailable is given." $key) -}}
{{- end -}}
{{- $fewest := ternary $role.autoscaling.minReplicas $role.replicaCount $scaled | int -}}
{{- if and $budget.enabled (regexMatch "^[0-9]+$" (toString $budget.minAvailable)) (ge ($budget.minAvailable | int) $fewest) -}}
{{- $wrong = append $wrong (printf "%s.podDisruptionBudget.minAvailable %d of %d pods would keep every node from being drained." $key ($budget.minAvailable | int) $fewest) -}}
{{- end -}}
{{- end -}}
{{- toYaml $wrong -}}
{{- end -}}

{{- define "dw.envChecks" -}}
{{- $wrong := list -}}
{{- $owned := include "dw.ownedNames" . | fromYaml -}}
{{- range $name, $value := .Values.settings -}}
{{- if hasKey $owned (trimSuffix "_FILE" $name) -}}
{{- $wrong = append $wrong (printf "settings.%s belongs to the chart: use %s." $name (index $owned (trimSuffix "_FILE" $name))) -}}
{{- end -}}
{{- end -}}
{{- $places := dict "global" .Values.global -}}
{{- range $key, $facts := include "dw.roles" . | fromYaml -}}
{{- $_ := set $places $key (index $.Values $key) -}}
{{- end -}}
{{- range $place, $block := $places -}}
{{- range $block.extraEnv -}}
{{- if hasKey $owned (trimSuffix "_FILE" .name) -}}
{{- $wrong = append $wrong (printf "%s.extraEnv: %s belongs to the chart: use %s." $place .name (index $owned (trimSuffix "_FILE" .name))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $wrong -}}
{{- end -}}

{{- define "dw.exposureChecks" -}}
{{- $wrong := list -}}
{{- if and .Values.gateway.enabled (ne .Values.shape "split_control_execution") -}}
{{- $wrong = append $wrong "gateway.enabled: the shape standalone_server has one URL already, that of the role server." -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- $wrong = append $wrong "httpRoute.parentRefs is needed: an HTTPRoute belongs to a Gateway." -}}
{{- end -}}
{{- if and .Values.metrics.podMonitor.enabled .Values.metrics.serviceMonitor.enabled -}}
{{- $wrong = append $wrong "metrics.podMonitor and metrics.serviceMonitor would count everything twice: use one of them." -}}
{{- end -}}
{{- if and (not .Values.workloads.enabled) (not .Values.migrations.enabled) (not .Values.migrations.contract.enabled) -}}
{{- $wrong = append $wrong "Neither workloads.enabled nor migrations.enabled: nothing would be installed." -}}
{{- end -}}
{{- toYaml $wrong -}}
{{- end -}}
