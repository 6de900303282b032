{{/* The roles of a shape, and the block of values that each of them is rendered from. */}}

{{/* What the chart knows of the active roles, by the key of their values. */}}
{{- define "dw.roles" -}}
{{- if eq .Values.shape "standalone_server" -}}
server: {component: server, command: standalone, class: server_http_node, planes: [control, worker]}
{{- else }}
apiIngress: {component: api-ingress, command: api-ingress, class: control_plane_node, planes: [control]}
matching: {component: matching, command: matching, class: matching_node, planes: [worker]}
{{- end }}
scheduler: {component: scheduler, command: scheduler, class: scheduler_node, planes: []}
{{- end -}}

{{/* The values of a role with those of `global` under them: (dict "root" $ "key" "matching"). */}}
{{- define "dw.role" -}}
{{- $role := deepCopy (index .root.Values .key) -}}
{{- $global := .root.Values.global -}}
{{- range tuple "podLabels" "podAnnotations" "nodeSelector" "affinity" -}}
{{- $_ := set $role . (mergeOverwrite (deepCopy (index $global .)) (index $role .)) -}}
{{- end -}}
{{- range tuple "extraEnvFrom" "extraVolumes" "extraVolumeMounts" "sidecars" "tolerations" "topologySpreadConstraints" -}}
{{- $_ := set $role . (concat (index $global .) (index $role .)) -}}
{{- end -}}
{{- $_ := set $role "priorityClassName" ($role.priorityClassName | default $global.priorityClassName) -}}
{{- $named := dict -}}
{{- range $name, $value := .root.Values.settings -}}
{{- $_ := set $named $name (dict "name" $name "value" (include "dw.text" $value)) -}}
{{- end -}}
{{- range concat $global.extraEnv $role.extraEnv -}}
{{- $_ := set $named .name . -}}
{{- end -}}
{{- $env := list -}}
{{- range $name := keys $named | sortAlpha -}}
{{- $env = append $env (index $named $name) -}}
{{- end -}}
{{- $_ := set $role "env" $env -}}
{{- toYaml $role -}}
{{- end -}}

{{/* A setting as text; whole numbers come as floats and must not be spelled with an exponent. */}}
{{- define "dw.text" -}}
{{- if kindIs "float64" . -}}
{{- ternary (printf "%.0f" .) (toString .) (eq . (floor .)) -}}
{{- else if or (kindIs "map" .) (kindIs "slice" .) -}}
{{- toJson . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{/* The component that serves a plane: (dict "root" $ "plane" "worker"). */}}
{{- define "dw.planeService" -}}
{{- $plane := .plane -}}
{{- $root := .root -}}
{{- range $key, $facts := include "dw.roles" .root | fromYaml -}}
{{- if has $plane $facts.planes -}}
{{- printf "%s-%s" (include "dw.fullname" $root) $facts.component -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dw.planePort" -}}
{{- $plane := .plane -}}
{{- $root := .root -}}
{{- range $key, $facts := include "dw.roles" .root | fromYaml -}}
{{- if has $plane $facts.planes -}}
{{- (index $root.Values $key).service.port -}}
{{- end -}}
{{- end -}}
{{- end -}}
