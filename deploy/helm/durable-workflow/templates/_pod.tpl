{{/* What every container of the server's image needs, be it of a role, of a migration or of a test. */}}

{{- define "dw.secretsPath" -}}/etc/durable-workflow/secrets{{- end -}}

{{/* Variables of Postgres: (dict "root" $ "direct" bool); direct ones lead past a pooler. */}}
{{- define "dw.postgresEnv" -}}
{{- $pg := .root.Values.postgres -}}
{{- $path := printf "%s/postgres" (include "dw.secretsPath" .root) -}}
{{- $direct := and .direct (or $pg.secretKeys.directUrl $pg.direct.host) -}}
{{- if and .direct $pg.secretKeys.directUrl }}
- {name: DATABASE_URL_FILE, value: {{ $path }}/direct-url}
{{- else if and $pg.secretKeys.url (not $direct) }}
- {name: DATABASE_URL_FILE, value: {{ $path }}/url}
{{- else }}
- {name: DB_HOST, value: {{ ternary $pg.direct.host $pg.host (not (empty $direct)) | quote }}}
- {name: DB_PORT, value: {{ ternary $pg.direct.port $pg.port (not (empty $direct)) | quote }}}
- {name: DB_DATABASE, value: {{ $pg.database | quote }}}
{{- if $pg.secretKeys.username }}
- name: DB_USERNAME
  valueFrom: {secretKeyRef: {name: {{ $pg.existingSecret }}, key: {{ $pg.secretKeys.username }}}}
{{- else }}
- {name: DB_USERNAME, value: {{ $pg.username | quote }}}
{{- end }}
{{- if $pg.secretKeys.password }}
- {name: DB_PASSWORD_FILE, value: {{ $path }}/password}
{{- end }}
{{- end }}
- {name: DB_SSLMODE, value: {{ $pg.tls.mode }}}
{{- include "dw.tlsEnv" (dict "tls" $pg.tls "prefix" "DB" "path" $path) }}
{{- end -}}

{{- define "dw.redisEnv" -}}
{{- $redis := .root.Values.redis -}}
{{- $path := printf "%s/redis" (include "dw.secretsPath" .root) -}}
{{- if $redis.secretKeys.url }}
- {name: REDIS_URL_FILE, value: {{ $path }}/url}
{{- else if $redis.host }}
- {name: REDIS_HOST, value: {{ $redis.host | quote }}}
- {name: REDIS_PORT, value: {{ $redis.port | quote }}}
- {name: REDIS_DB, value: {{ $redis.database | quote }}}
- {name: REDIS_SCHEME, value: {{ ternary "tls" "tcp" $redis.tls.enabled }}}
{{- with $redis.username }}
- {name: REDIS_USERNAME, value: {{ . | quote }}}
{{- end }}
{{- if $redis.secretKeys.password }}
- {name: REDIS_PASSWORD_FILE, value: {{ $path }}/password}
{{- end }}
{{- end }}
{{- include "dw.tlsEnv" (dict "tls" $redis.tls "prefix" "REDIS" "path" $path) }}
{{- end -}}

{{- define "dw.tlsEnv" -}}
{{- if .tls.existingSecret }}
{{- if .tls.caKey }}
- {name: {{ .prefix }}_SSLROOTCERT, value: {{ .path }}/ca.crt}
{{- end }}
{{- if .tls.certKey }}
- {name: {{ .prefix }}_SSLCERT, value: {{ .path }}/tls.crt}
{{- end }}
{{- if .tls.keyKey }}
- {name: {{ .prefix }}_SSLKEY, value: {{ .path }}/tls.key}
{{- end }}
{{- end }}
{{- end -}}

{{/* The settings of the keys of `auth.secretKeys`. */}}
{{- define "dw.authNames" -}}
token: DW_AUTH_TOKEN
workerToken: DW_WORKER_TOKEN
operatorToken: DW_OPERATOR_TOKEN
adminToken: DW_ADMIN_TOKEN
principalTokens: DW_PRINCIPAL_TOKENS
signatureKey: DW_SIGNATURE_KEY
workerSignatureKey: DW_WORKER_SIGNATURE_KEY
operatorSignatureKey: DW_OPERATOR_SIGNATURE_KEY
adminSignatureKey: DW_ADMIN_SIGNATURE_KEY
{{- end -}}

{{- define "dw.authEnv" -}}
{{- $auth := .root.Values.auth -}}
{{- $path := printf "%s/auth" (include "dw.secretsPath" .root) }}
- {name: DW_AUTH_DRIVER, value: {{ $auth.driver }}}
{{- if $auth.existingSecret }}
{{- range $key, $name := include "dw.authNames" . | fromYaml }}
{{- if index $auth.secretKeys $key }}
- {name: {{ $name }}_FILE, value: {{ $path }}/{{ $name }}}
{{- end }}
{{- end }}
{{- end }}
{{- if eq $auth.driver "jwt" }}
{{- with $auth.jwt }}
- {name: DW_JWT_ISSUER, value: {{ .issuer | quote }}}
- {name: DW_JWT_AUDIENCE, value: {{ .audience | quote }}}
- {name: DW_JWT_ROLE_CLAIM, value: {{ .roleClaim | quote }}}
{{- if .jwksUrl }}
- {name: DW_JWT_JWKS_URL, value: {{ .jwksUrl | quote }}}
{{- end }}
{{- if .roleMap }}
- {name: DW_JWT_ROLE_MAP, value: {{ .roleMap | toJson | quote }}}
{{- end }}
{{- if .namespaceClaim }}
- {name: DW_JWT_NAMESPACE_CLAIM, value: {{ .namespaceClaim | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* One projected volume with every secret: (dict "root" $ "with" (list "postgres" "redis" "auth" "settings")). */}}
{{- define "dw.secretSources" -}}
{{- $values := .root.Values -}}
{{- $sources := list -}}
{{- range $part := .with -}}
{{- if or (eq $part "postgres") (eq $part "redis") -}}
{{- $store := index $values $part -}}
{{- $files := dict "password" "password" "url" "url" "directUrl" "direct-url" -}}
{{- $sources = concat $sources (include "dw.sourcesOf" (dict "secret" $store.existingSecret "keys" $store.secretKeys "files" $files "folder" $part) | fromYamlArray) -}}
{{- $files = dict "caKey" "ca.crt" "certKey" "tls.crt" "keyKey" "tls.key" -}}
{{- $sources = concat $sources (include "dw.sourcesOf" (dict "secret" $store.tls.existingSecret "keys" $store.tls "files" $files "folder" $part) | fromYamlArray) -}}
{{- else if eq $part "auth" -}}
{{- $files := include "dw.authNames" $ | fromYaml -}}
{{- $sources = concat $sources (include "dw.sourcesOf" (dict "secret" $values.auth.existingSecret "keys" $values.auth.secretKeys "files" $files "folder" "auth") | fromYamlArray) -}}
{{- else if eq $part "settings" -}}
{{- range $values.secretSettings -}}
{{- $sources = concat $sources (include "dw.sourcesOf" (dict "secret" .existingSecret "keys" (dict "key" .key) "files" (dict "key" .name) "folder" "settings") | fromYamlArray) -}}
{{- end -}}
{{- else if eq $part "test" -}}
{{- $sources = concat $sources (include "dw.sourcesOf" (dict "secret" $values.test.existingSecret "keys" $values.test "files" (dict "tokenKey" "token") "folder" "test") | fromYamlArray) -}}
{{- end -}}
{{- end -}}
{{- toYaml $sources -}}
{{- end -}}

{{- define "dw.sourcesOf" -}}
{{- $items := list -}}
{{- range $key := keys .files | sortAlpha -}}
{{- if index $.keys $key -}}
{{- $items = append $items (dict "key" (index $.keys $key) "path" (printf "%s/%s" $.folder (index $.files $key))) -}}
{{- end -}}
{{- end -}}
{{- if and .secret $items -}}
{{- list (dict "secret" (dict "name" .secret "items" $items)) | toYaml -}}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{- define "dw.volumes" -}}
{{- $sources := include "dw.secretSources" . | fromYamlArray -}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- if $sources }}
- name: secrets
  projected:
    # The group of the pod may read them; libpq takes no private key that others may read.
    defaultMode: 0440
    sources:
      {{- toYaml $sources | nindent 6 }}
{{- end }}
{{- end -}}

{{- define "dw.volumeMounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if include "dw.secretSources" . | fromYamlArray }}
- {name: secrets, mountPath: {{ include "dw.secretsPath" .root }}, readOnly: true}
{{- end }}
{{- end -}}

{{- define "dw.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "dw.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "dw.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Names of variables that the chart sets, or that would change what it owns; with what to use instead. */}}
{{- define "dw.ownedNames" -}}
DW_SERVER_TOPOLOGY_SHAPE: shape
WORKFLOW_SERVER_TOPOLOGY_SHAPE: shape
DW_SERVER_PROCESS_CLASS: shape
WORKFLOW_SERVER_PROCESS_CLASS: shape
DW_MODE: shape
WORKFLOW_SERVER_MODE: shape
DW_V2_MATCHING_ROLE_QUEUE_WAKE: shape
WORKFLOW_V2_MATCHING_ROLE_QUEUE_WAKE: shape
DW_SERVER_ID: the name of the pod
DW_HTTP_HOST: nothing, it is fixed
DW_HTTP_PORT: service.port of the role
DW_PROCESSES: processes of the role
DW_DB_POOL_SIZE: postgres.poolSize or poolSize of the role
DW_DRAIN_SECONDS: drainSeconds
DW_EXTERNAL_PAYLOAD_MAX_BYTES: http.maxBodyBytes
DATABASE_URL: postgres.existingSecret
DB_URL: postgres.existingSecret
DB_HOST: postgres.host
DB_PORT: postgres.port
DB_DATABASE: postgres.database
DB_USERNAME: postgres.username
DB_PASSWORD: postgres.existingSecret
DB_CONNECTION: nothing, it is fixed
DB_SSLMODE: postgres.tls.mode
DB_SSLROOTCERT: postgres.tls
DB_SSLCERT: postgres.tls
DB_SSLKEY: postgres.tls
REDIS_URL: redis.existingSecret
REDIS_HOST: redis.host
REDIS_PORT: redis.port
REDIS_DB: redis.database
REDIS_USERNAME: redis.username
REDIS_PASSWORD: redis.existingSecret
REDIS_SCHEME: redis.tls.enabled
REDIS_SSLROOTCERT: redis.tls
REDIS_SSLCERT: redis.tls
REDIS_SSLKEY: redis.tls
DW_AUTH_DRIVER: auth.driver
DW_JWT_ISSUER: auth.jwt
DW_JWT_AUDIENCE: auth.jwt
DW_JWT_JWKS_URL: auth.jwt
DW_JWT_ROLE_CLAIM: auth.jwt
DW_JWT_ROLE_MAP: auth.jwt
DW_JWT_NAMESPACE_CLAIM: auth.jwt
DW_AUTH_TOKEN: auth.existingSecret
DW_WORKER_TOKEN: auth.existingSecret
DW_OPERATOR_TOKEN: auth.existingSecret
DW_ADMIN_TOKEN: auth.existingSecret
DW_PRINCIPAL_TOKENS: auth.existingSecret
DW_SIGNATURE_KEY: auth.existingSecret
DW_WORKER_SIGNATURE_KEY: auth.existingSecret
DW_OPERATOR_SIGNATURE_KEY: auth.existingSecret
DW_ADMIN_SIGNATURE_KEY: auth.existingSecret
DW_EXTERNAL_PAYLOAD_DISKS: secretSettings
DW_BRIDGE_SIGNATURE_KEYS: secretSettings
{{- end -}}
