{{/* The connections that the roles may open at once, role by role, as YAML: `total`, and `lines` that say how. */}}
{{- define "dw.budget" -}}
{{- $total := 0 -}}
{{- $lines := list -}}
{{- $values := .Values -}}
{{- if .Values.workloads.enabled -}}
{{- range $key, $facts := include "dw.roles" . | fromYaml -}}
{{- $role := index $values $key -}}
{{- $replicas := ternary $role.autoscaling.maxReplicas $role.replicaCount (or $role.autoscaling.enabled $role.externalScaler) | int -}}
{{- $surge := 0 -}}
{{- if ne $role.strategy.type "Recreate" -}}
{{- $wanted := dig "rollingUpdate" "maxSurge" "25%" $role.strategy -}}
{{- if hasSuffix "%" (toString $wanted) -}}
{{- $surge = div (add (mul $replicas (trimSuffix "%" $wanted | int)) 99) 100 | int -}}
{{- else -}}
{{- $surge = $wanted | int -}}
{{- end -}}
{{- end -}}
{{- $pool := $role.poolSize | default $values.postgres.poolSize | int -}}
{{/* Beside its pool each process has one connection for its transactions. */}}
{{- $sum := mul (add $replicas $surge) ($role.processes | int) (add $pool 1) | int -}}
{{- $total = add $total $sum | int -}}
{{- $lines = append $lines (printf "%s: (%d pods + %d surge) x %d processes x (pool of %d + 1) = %d" $key $replicas $surge ($role.processes | int) $pool $sum) -}}
{{- end -}}
{{- end -}}
{{- if .Values.migrations.enabled -}}
{{- $total = add $total 1 | int -}}
{{- $lines = append $lines "migrations: 1" -}}
{{- end -}}
{{- toYaml (dict "total" $total "lines" $lines) -}}
{{- end -}}
