{{/* The container of a command that speaks with the database only: (dict "root" $ "name" name "args" list). */}}
{{- define "dw.commandContainer" -}}
{{- $root := .root -}}
{{- $secrets := dict "root" $root "with" (list "postgres") -}}
name: {{ .name }}
image: {{ include "dw.image" $root | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
args: {{ .args | toJson }}
env:
  {{- include "dw.postgresEnv" (dict "root" $root "direct" true) | nindent 2 }}
  {{- with $root.Values.settings }}
  {{- range $name := tuple "DW_DEFAULT_NAMESPACE" "DW_HISTORY_RETENTION_DAYS" "DW_BOOTSTRAP_RETRIES" "DW_BOOTSTRAP_DELAY_SECONDS" "DW_LOG_LEVEL" }}
  {{- if hasKey $root.Values.settings $name }}
  - {name: {{ $name }}, value: {{ include "dw.text" (index $root.Values.settings $name) | quote }}}
  {{- end }}
  {{- end }}
  {{- end }}
resources:
  {{- toYaml $root.Values.migrations.resources | nindent 2 }}
securityContext:
  {{- include "dw.securityContext" $root | nindent 2 }}
volumeMounts:
  {{- include "dw.volumeMounts" $secrets | nindent 2 }}
{{- end -}}

{{/* spec of a Job that runs one step of the migrations: (dict "root" $ "component" name "args" list). */}}
{{- define "dw.migrationJobSpec" -}}
{{- $root := .root -}}
{{- $migrations := $root.Values.migrations -}}
backoffLimit: {{ $migrations.backoffLimit }}
activeDeadlineSeconds: {{ $migrations.activeDeadlineSeconds }}
template:
  metadata:
    labels:
      {{- mergeOverwrite (deepCopy $migrations.podLabels) (include "dw.labels" . | fromYaml) | toYaml | nindent 6 }}
    {{- with $migrations.podAnnotations }}
    annotations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    {{- include "dw.pullSecrets" $root | nindent 4 }}
    serviceAccountName: {{ include "dw.migrationServiceAccount" $root }}
    automountServiceAccountToken: false
    enableServiceLinks: false
    # A pod that has failed stays, so that its log can be read; the next attempt gets a pod of its own.
    restartPolicy: Never
    securityContext:
      {{- include "dw.podSecurityContext" $root | nindent 6 }}
    {{- with $root.Values.global.priorityClassName }}
    priorityClassName: {{ . }}
    {{- end }}
    {{- with $root.Values.global.nodeSelector }}
    nodeSelector:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $root.Values.global.tolerations }}
    tolerations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    containers:
      - {{- include "dw.commandContainer" (dict "root" $root "name" "migrate" "args" .args) | nindent 8 }}
    volumes:
      {{- include "dw.volumes" (dict "root" $root "with" (list "postgres")) | nindent 6 }}
{{- end -}}

{{/* One step as a hook or as an ordinary Job: (dict "root" $ "step" "expand" "args" list "hooks" text "weight" text). */}}
{{- define "dw.migrationJob" -}}
{{- $root := .root -}}
{{- $component := printf "migrate-%s" .step -}}
{{- $name := printf "%s-%s" (include "dw.fullname" $root) .step -}}
{{- $spec := include "dw.migrationJobSpec" (dict "root" $root "component" $component "args" .args) -}}
{{- $annotations := deepCopy $root.Values.migrations.annotations -}}
{{- if $root.Values.migrations.useHelmHooks -}}
{{- $annotations = mergeOverwrite $annotations (dict "helm.sh/hook" .hooks "helm.sh/hook-weight" .weight "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded") -}}
{{- else -}}
{{/* Jobs cannot be changed. The revision makes one for each upgrade; the content, where the revision is always 1. */}}
{{- $name = printf "%s-%d-%s" $name ($root.Release.Revision | int) ($spec | sha256sum | trunc 8) -}}
{{- $annotations = mergeOverwrite $annotations (dict "argocd.argoproj.io/sync-wave" (index $root.Values.migrations.argoSyncWaves .step)) -}}
{{- end -}}
apiVersion: batch/v1
kind: Job
metadata:
  {{- include "dw.metadata" (dict "root" $root "component" $component "name" $name "annotations" $annotations) | nindent 2 }}
spec:
  {{- $spec | nindent 2 }}
{{- end -}}
