{{/* The value of one option of the configuration, or the default that docgraph has: (dict "root" $ "section" … "option" … "default" …) */}}
{{- define "docgraph.option" -}}
{{- $section := get (.root.Values.config | default dict) .section | default dict -}}
{{- $value := index $section .option -}}
{{- if kindIs "invalid" $value -}}
{{- .default -}}
{{- else if kindIs "float64" $value -}}
{{- printf "%.0f" $value -}}
{{- else -}}
{{- $value -}}
{{- end -}}
{{- end -}}

{{- define "docgraph.pingPath" -}}
{{- include "docgraph.option" (dict "root" . "section" "ping" "option" "uri" "default" "/ping") -}}
{{- end -}}

{{- define "docgraph.databaseProbePath" -}}
{{- include "docgraph.option" (dict "root" . "section" "database-probe" "option" "uri" "default" "/health/db") -}}
{{- end -}}

{{- define "docgraph.metricsPath" -}}
{{- include "docgraph.option" (dict "root" . "section" "metrics" "option" "uri" "default" "/metrics") -}}
{{- end -}}

{{/* A time of the configuration in whole seconds, rounded up. */}}
{{- define "docgraph.seconds" -}}
{{- div (add (include "docgraph.option" . | int64) 999) 1000 -}}
{{- end -}}

{{/* From the order to stop to the end: proxies turn away, requests are answered, and a moment. */}}
{{- define "docgraph.gracePeriod" -}}
{{- $stopping := include "docgraph.seconds" (dict "root" . "section" "connection-options" "option" "shutdown-timeout-ms" "default" "10000") -}}
{{- $delay := include "docgraph.seconds" (dict "root" . "section" "connection-options" "option" "shutdown-delay-ms" "default" "0") -}}
{{- add .Values.preStopSeconds $delay $stopping 10 -}}
{{- end -}}

{{/* The value `resources`; memory that it does not set fits the number of workers. */}}
{{- define "docgraph.resources" -}}
{{- $resources := deepCopy (.Values.resources | default dict) -}}
{{- $processes := include "docgraph.option" (dict "root" . "section" "core" "option" "workers" "default" "1") | int64 | add1 -}}
{{- range $name, $mebibytes := dict "requests" 96 "limits" 512 -}}
{{- $own := get $resources $name -}}
{{- if and (kindIs "map" $own) (not (hasKey $own "memory")) -}}
{{- $_ := set $own "memory" (printf "%dMi" (mul $mebibytes $processes)) -}}
{{- end -}}
{{- end -}}
{{- with $resources }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* docgraph.yml: the value `config`, and what the chart decides. */}}
{{- define "docgraph.config" -}}
{{- $config := deepCopy (.Values.config | default dict) -}}
{{- $listener := dict "enabled" true "host" .Values.listenAddress "port" (int64 .Values.containerPort) -}}
{{- $core := get $config "core" | default dict -}}
{{- $probes := merge (dict "host" .Values.listenAddress "port" (int64 .Values.probePort)) (get $core "probe-listener" | default dict) -}}
{{- $_ := set $config "core" (set $core "probe-listener" $probes) -}}
{{- $unlogged := list (include "docgraph.pingPath" .) (include "docgraph.databaseProbePath" .) (include "docgraph.metricsPath" .) -}}
{{- $logging := get $config "logging" | default dict -}}
{{- if kindIs "invalid" (index $logging "requests-exclude-patterns") -}}
{{- $_ := set $config "logging" (set $logging "requests-exclude-patterns" $unlogged) -}}
{{- end -}}
{{- if .Values.tls.secretName -}}
{{- $_ := set $config "http-listener" (dict "enabled" false) -}}
{{- $_ := set $config "https-listener" (merge $listener (dict "certificate" "/etc/docgraph-tls/tls.crt" "key" "/etc/docgraph-tls/tls.key")) -}}
{{- else -}}
{{- $_ := set $config "http-listener" $listener -}}
{{- end -}}
{{- if .Values.tokenKey.secretName -}}
{{- $_ := set $config "rndTokenManager" (set (get $config "rndTokenManager" | default dict) "enabled" false) -}}
{{- $_ := set $config "jwtTokenManager" (set (get $config "jwtTokenManager" | default dict) "enabled" true) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/*
The secrets as variables, and the overrides that put them in their places. Kubernetes replaces $(NAME) by the variables above it.
Their names do not begin with DOCGRAPH_: docgraph warns of such that it does not know. A connection string is in double quotation marks,
which no address contains; everything else in single ones, for the first user is JSON.
*/}}
{{- define "docgraph.env" -}}
{{- $secrets := list (dict "variable" "SECRET_CONNECTION_STRING" "option" "/mclient/connection-string" "mark" "\"" "secretName" .Values.connectionString.secretName "secretKey" .Values.connectionString.secretKey) -}}
{{- with .Values.tokenKey }}{{ if .secretName -}}
{{- $secrets = append $secrets (dict "variable" "SECRET_TOKEN_KEY" "option" "/jwtTokenManager/key" "mark" "'" "secretName" .secretName "secretKey" .secretKey) -}}
{{- end }}{{ end -}}
{{- with .Values.firstUser }}{{ if .secretName -}}
{{- $secrets = append $secrets (dict "variable" "SECRET_FIRST_USER" "option" "/dbRealmAuthenticator/create-user-document" "mark" "'" "secretName" .secretName "secretKey" .secretKey) -}}
{{- end }}{{ end -}}
{{- range $index, $one := .Values.secretOptions -}}
{{- $secrets = append $secrets (dict "variable" (printf "SECRET_OPTION_%d" (add1 $index)) "option" $one.option "mark" "'" "secretName" $one.secretName "secretKey" $one.secretKey) -}}
{{- end -}}
{{- $overrides := list -}}
{{- range $secrets }}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ .secretName | quote }}
      key: {{ .secretKey | quote }}
{{- $overrides = append $overrides (printf "%s -> %s$(%s)%s" .option .mark .variable .mark) }}
{{- end }}
- name: DOCGRAPH_CONFIG
  value: /etc/docgraph/docgraph.yml
- name: DOCGRAPH_OVERRIDES
  value: {{ join "; " $overrides | quote }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
