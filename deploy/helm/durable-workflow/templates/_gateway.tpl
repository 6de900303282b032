{{/* The rule of deploy/compose/gateway.conf; Services of a cluster keep their addresses, so names are looked up once. */}}
{{- define "dw.gatewayConfig" -}}
{{- $root := . -}}
{{- range $plane := list "worker" "control" }}
{{- $service := printf "%s:%s" (include "dw.planeService" (dict "root" $root "plane" $plane)) (include "dw.planePort" (dict "root" $root "plane" $plane)) -}}
# A Service is one address for all pods. It stands here twice for a second try, which may reach another of them.
upstream {{ $plane }} {
    server {{ $service }} max_fails=0;
    server {{ $service }} max_fails=0;
}

{{ end -}}
server {
    listen 8080;
    client_max_body_size {{ include "dw.bodyBytesBefore" . }};

    location = /gateway/ready {
        access_log off;
        return 200;
    }
{{- range $plane, $path := dict "worker" "/api/worker/" "control" "/" }}

    location {{ $path }} {
        proxy_pass http://{{ $plane }};
        proxy_read_timeout {{ $root.Values.http.timeoutSeconds | int }}s;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_buffering off;
        # A connection that is refused or swallowed is tried again. A POST that was sent may have taken effect: the
        # client repeats it, not the gateway. After 10 s nothing is passed on, so that nobody waits for two answers in
        # turn.
        proxy_connect_timeout 3s;
        proxy_next_upstream error timeout;
        proxy_next_upstream_timeout 10s;
    }
{{- end }}
}
{{- end -}}

{{/* What lies before the server lets a little more through than it takes: the server refuses by name. */}}
{{- define "dw.bodyBytesBefore" -}}
{{- add (.Values.http.maxBodyBytes | int64) 1048576 -}}
{{- end -}}
