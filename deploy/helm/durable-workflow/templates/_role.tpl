{{/* Everything a role consists of: (dict "root" $ "key" "matching" "facts" dict). One text for all of them. */}}
{{- define "dw.roleObjects" -}}
{{- $root := .root -}}
{{- $facts := .facts -}}
{{- $role := include "dw.role" . | fromYaml -}}
{{- $name := printf "%s-%s" (include "dw.fullname" $root) $facts.component -}}
{{- $meta := dict "root" $root "component" $facts.component "name" $name -}}
{{- $secrets := dict "root" $root "with" (list "postgres" "redis" "auth" "settings") -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "dw.metadata" $meta | nindent 2 }}
spec:
  {{- if not (or $role.autoscaling.enabled $role.externalScaler) }}
  replicas: {{ $role.replicaCount }}
  {{- end }}
  minReadySeconds: {{ $role.minReadySeconds }}
  progressDeadlineSeconds: {{ $role.progressDeadlineSeconds }}
  revisionHistoryLimit: {{ $role.revisionHistoryLimit }}
  strategy:
    {{- toYaml $role.strategy | nindent 4 }}
  selector:
    matchLabels:
      {{- include "dw.selectorLabels" $root | nindent 6 }}
      app.kubernetes.io/component: {{ $facts.component }}
  template:
    metadata:
      labels:
        {{- mergeOverwrite (deepCopy $role.podLabels) (include "dw.labels" $meta | fromYaml) | toYaml | nindent 8 }}
      {{- with mergeOverwrite (deepCopy $root.Values.global.commonAnnotations) $role.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- include "dw.pullSecrets" $root | nindent 6 }}
      serviceAccountName: {{ include "dw.serviceAccount" $root }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ $role.terminationGracePeriodSeconds }}
      {{- with $role.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      securityContext:
        {{- mergeOverwrite (include "dw.podSecurityContext" $root | fromYaml) $role.podSecurityContext | toYaml | nindent 8 }}
      containers:
        - name: server
          image: {{ include "dw.image" $root | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: [{{ $facts.command }}]
          env:
            - {name: DW_SERVER_TOPOLOGY_SHAPE, value: {{ $root.Values.shape }}}
            - {name: DW_SERVER_PROCESS_CLASS, value: {{ $facts.class }}}
            - {name: DW_MODE, value: service}
            - {name: DW_V2_MATCHING_ROLE_QUEUE_WAKE, value: {{ eq $root.Values.shape "standalone_server" | quote }}}
            - name: DW_SERVER_ID
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - {name: DW_HTTP_PORT, value: "8080"}
            - {name: DW_PROCESSES, value: {{ $role.processes | quote }}}
            - {name: DW_DRAIN_SECONDS, value: {{ $root.Values.drainSeconds | quote }}}
            - {name: DW_DB_POOL_SIZE, value: {{ $role.poolSize | default $root.Values.postgres.poolSize | quote }}}
            - {name: DW_EXTERNAL_PAYLOAD_MAX_BYTES, value: {{ include "dw.text" $root.Values.http.maxBodyBytes | quote }}}
            {{- include "dw.postgresEnv" (dict "root" $root "direct" false) | nindent 12 }}
            {{- include "dw.redisEnv" (dict "root" $root) | nindent 12 }}
            {{- include "dw.authEnv" (dict "root" $root) | nindent 12 }}
            {{- range $root.Values.secretSettings }}
            - {name: {{ .name }}_FILE, value: {{ include "dw.secretsPath" $root }}/settings/{{ .name }}}
            {{- end }}
            {{- with $role.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with $role.extraEnvFrom }}
          envFrom:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            - {name: http, containerPort: 8080, protocol: TCP}
          startupProbe:
            {{- mergeOverwrite (dict "httpGet" (dict "path" "/livez" "port" "http")) $role.probes.startup | toYaml | nindent 12 }}
          livenessProbe:
            {{- mergeOverwrite (dict "httpGet" (dict "path" "/livez" "port" "http")) $role.probes.liveness | toYaml | nindent 12 }}
          readinessProbe:
            {{- mergeOverwrite (dict "httpGet" (dict "path" "/api/ready" "port" "http")) $role.probes.readiness | toYaml | nindent 12 }}
          {{- if $root.Values.preStopSeconds }}
          lifecycle:
            preStop:
              exec: {command: [python, -c, "import time; time.sleep({{ $root.Values.preStopSeconds }})"]}
          {{- end }}
          resources:
            {{- toYaml $role.resources | nindent 12 }}
          securityContext:
            {{- mergeOverwrite (include "dw.securityContext" $root | fromYaml) $role.securityContext | toYaml | nindent 12 }}
          volumeMounts:
            {{- include "dw.volumeMounts" $secrets | nindent 12 }}
            {{- with $role.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
        {{- with $role.sidecars }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
        {{- include "dw.volumes" $secrets | nindent 8 }}
        {{- with $role.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $role.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $role.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $role.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $role.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- range . }}
        {{- $own := dict "matchLabels" (mergeOverwrite (include "dw.selectorLabels" $root | fromYaml) (dict "app.kubernetes.io/component" $facts.component)) }}
        - {{- merge . (dict "labelSelector" $own) | toYaml | nindent 10 }}
        {{- end }}
      {{- end }}
---
apiVersion: v1
kind: Service
metadata:
  {{- include "dw.metadata" (merge (dict "annotations" $role.service.annotations) $meta) | nindent 2 }}
spec:
  type: {{ $role.service.type }}
  selector:
    {{- include "dw.selectorLabels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $facts.component }}
  ports:
    - {name: http, port: {{ $role.service.port }}, targetPort: http, protocol: TCP, appProtocol: http}
{{- if $role.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "dw.metadata" $meta | nindent 2 }}
spec:
  {{- if kindIs "invalid" $role.podDisruptionBudget.minAvailable }}
  maxUnavailable: {{ $role.podDisruptionBudget.maxUnavailable }}
  {{- else }}
  minAvailable: {{ $role.podDisruptionBudget.minAvailable }}
  {{- end }}
  # A pod that is not ready anyway never stands in the way of a drained node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "dw.selectorLabels" $root | nindent 6 }}
      app.kubernetes.io/component: {{ $facts.component }}
{{- end }}
{{- if $role.autoscaling.enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "dw.metadata" $meta | nindent 2 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ $name }}}
  minReplicas: {{ $role.autoscaling.minReplicas }}
  maxReplicas: {{ $role.autoscaling.maxReplicas }}
  metrics:
    {{- with $role.autoscaling.targetCPUUtilizationPercentage }}
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: {{ . }}}}
    {{- end }}
    {{- if $role.autoscaling.metric.name }}
    - type: Pods
      pods:
        metric: {name: {{ $role.autoscaling.metric.name }}}
        target: {type: AverageValue, averageValue: {{ $role.autoscaling.metric.averageValue | quote }}}
    {{- end }}
  {{- with $role.autoscaling.behavior }}
  behavior:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}
