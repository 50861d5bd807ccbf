{{/* What the schema of the values cannot say. Each refusal names the value and what to do. */}}
{{- define "docgraph.checks" -}}
{{- if not (.Capabilities.APIVersions.Has "autoscaling/v2") -}}
{{- fail "this chart is for Kubernetes 1.25 and newer: the cluster has no autoscaling/v2" -}}
{{- end -}}
{{- if not .Values.connectionString.secretName -}}
{{- fail "connectionString.secretName is missing. Make a Secret with the connection string of your MongoDB, for example by\n  kubectl create secret generic docgraph --from-literal=connection-string='mongodb://…'\nand name it: --set connectionString.secretName=docgraph" -}}
{{- end -}}
{{- include "docgraph.checkConfig" . -}}
{{- include "docgraph.checkScaling" . -}}
{{- include "docgraph.checkExtras" . -}}
{{- $options := list "/mclient/connection-string" "/jwtTokenManager/key" "/dbRealmAuthenticator/create-user-document" -}}
{{- range .Values.secretOptions -}}
{{- if has .option $options -}}
{{- fail (printf "secretOptions has %s twice, or in place of connectionString, tokenKey or firstUser" .option) -}}
{{- end -}}
{{- $options = append $options .option -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.enabled needs ingress.hosts: [{host: api.example.org, paths: [{path: /, pathType: Prefix}]}]" -}}
{{- end -}}
{{- end -}}

{{/* What is added may not be in the place of something that the chart has. */}}
{{- define "docgraph.checkExtras" -}}
{{- range .Values.extraEnv -}}
{{- if regexMatch "^(DOCGRAPH_(CONFIG|OVERRIDES)|SECRET_(CONNECTION_STRING|TOKEN_KEY|FIRST_USER|OPTION_[0-9]+))$" .name -}}
{{- fail (printf "extraEnv has %s, which the chart sets: use config and secretOptions" .name) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraVolumes -}}
{{- if has .name (list "config" "tmp" "tls") -}}
{{- fail (printf "extraVolumes has %s, which is the name of a volume of the chart" .name) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraVolumeMounts -}}
{{- if regexMatch "^(/tmp|/etc/docgraph(-tls)?(/.*)?)/?$" .mountPath -}}
{{- fail (printf "extraVolumeMounts has %s, which is, or is in, a volume of the chart that cannot be written to: take another directory" .mountPath) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* No secrets where many may read them, and nothing against what the chart itself relies on. */}}
{{- define "docgraph.checkConfig" -}}
{{- $config := .Values.config | default dict -}}
{{- range $section := list "http-listener" "https-listener" -}}
{{- if hasKey $config $section -}}
{{- fail (printf "config.%s is set by the chart: use listenAddress, containerPort and tls.secretName" $section) -}}
{{- end -}}
{{- end -}}
{{- $secrets := list
  (list "mclient" "connection-string" "connectionString.secretName")
  (list "jwtTokenManager" "key" "tokenKey.secretName")
  (list "dbRealmAuthenticator" "create-user-document" "firstUser.secretName")
  (list "digestAuthMechanism" "key" "secretOptions")
  (list "fileRealmAuthenticator" "users" "fileRealmAuthenticator.conf-file, with the file from a Secret in extraVolumes") -}}
{{- range $secrets -}}
{{- if get (get $config (index . 0) | default dict) (index . 1) -}}
{{- fail (printf "config.%s.%s is a secret, and config becomes a ConfigMap: use %s" (index . 0) (index . 1) (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- if and (get (get $config "jwtTokenManager" | default dict) "enabled") (not .Values.tokenKey.secretName) -}}
{{- fail "config.jwtTokenManager.enabled needs a key: name its Secret in tokenKey.secretName, which also turns it on" -}}
{{- end -}}
{{- $key := get (get $config "jwtAuthenticationMechanism" | default dict) "key" | default "/" | toString -}}
{{- if not (regexMatch "^/|^-----BEGIN (RSA )?(PUBLIC KEY|CERTIFICATE)" $key) -}}
{{- fail "config.jwtAuthenticationMechanism.key is a secret unless it is a public key or the path of a file, and config becomes a ConfigMap: use secretOptions" -}}
{{- end -}}
{{- if kindIs "bool" (index (get $config "graphql" | default dict) "introspection") -}}
{{- fail "config.graphql.introspection: helm reads the word off as false: write \"off\" in quotation marks" -}}
{{- end -}}
{{- range $section := list "ping" "database-probe" -}}
{{- $own := get $config $section | default dict -}}
{{- if or $own.secured (eq (get $own "enabled" | toString) "false") -}}
{{- fail (printf "config.%s has to be enabled and not secured: probes ask it" $section) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "docgraph.checkScaling" -}}
{{- $rolling := .Values.strategy.rollingUpdate | default dict -}}
{{- if and (eq (index $rolling "maxUnavailable" | toString) "0") (eq (index $rolling "maxSurge" | toString) "0") -}}
{{- fail "strategy.rollingUpdate: maxUnavailable and maxSurge cannot both be 0" -}}
{{- end -}}
{{- with .Values.podDisruptionBudget -}}
{{- if and .enabled (kindIs "invalid" .minAvailable) (kindIs "invalid" .maxUnavailable) -}}
{{- fail "podDisruptionBudget needs maxUnavailable or minAvailable" -}}
{{- end -}}
{{- end -}}
{{- with .Values.autoscaling }}{{ if .enabled -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail "autoscaling.minReplicas is more than autoscaling.maxReplicas" -}}
{{- end -}}
{{- $requests := get ($.Values.resources | default dict) "requests" | default dict -}}
{{- if and .targetCPUUtilizationPercentage (not $requests.cpu) -}}
{{- fail "autoscaling.targetCPUUtilizationPercentage needs resources.requests.cpu, of which it is a part" -}}
{{- end -}}
{{- if and .targetMemoryUtilizationPercentage (not $requests.memory) -}}
{{- fail "autoscaling.targetMemoryUtilizationPercentage needs resources.requests.memory, of which it is a part" -}}
{{- end -}}
{{- if not (or .targetCPUUtilizationPercentage .targetMemoryUtilizationPercentage) -}}
{{- fail "autoscaling needs targetCPUUtilizationPercentage or targetMemoryUtilizationPercentage" -}}
{{- end -}}
{{- end }}{{ end -}}
{{- end -}}
