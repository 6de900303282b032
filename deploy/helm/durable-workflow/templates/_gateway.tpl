{{/* The rule of deploy/compose/gateway.conf; Services of a cluster keep their addresses, so names are looked up once. */}}
{{- define "dw.gatewayConfig" -}}
{{- $root := . -}}
server {
    listen 8080;
    client_max_body_size {{ include "dw.text" .Values.http.maxBodyBytes }};

    location = /gateway/ready {
        access_log off;
        return 200;
    }
{{- range $plane, $path := dict "worker" "/api/worker/" "control" "/" }}

    location {{ $path }} {
        proxy_pass http://{{ include "dw.planeService" (dict "root" $root "plane" $plane) }}:{{ include "dw.planePort" (dict "root" $root "plane" $plane) }};
        proxy_read_timeout {{ $root.Values.http.timeoutSeconds | int }}s;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_buffering off;
        # A pod that takes no connections is passed over. A POST that was sent may have taken effect: the client
        # repeats it, not the gateway.
        proxy_connect_timeout 3s;
        proxy_next_upstream error;
    }
{{- end }}
}
{{- end -}}
