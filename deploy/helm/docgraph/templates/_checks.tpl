{{/* What the schema of the values cannot say. Each refusal names the value and what to do. */}}
{{- define "docgraph.checks" -}}
{{- if not (.Capabilities.APIVersions.Has "autoscaling/v2") -}}
{{- fail "this chart is for Kubernetes 1.25 and newer: the cluster has no autoscaling/v2" -}}
{{- end -}}
{{- if not .Values.connectionString.secretName -}}
{{- fail "connectionString.secretName is missing. Make a Secret with the connection string of your MongoDB, for example by\n  kubectl create secret generic docgraph --from-literal=connection-string='mongodb://…'\nand name it: --set connectionString.secretName=docgraph" -}}
{{- end -}}
{{- if regexMatch "[:@]" (base .Values.image.repository) -}}
{{- fail (printf "image.repository %s has a tag or digest: name it in image.tag or image.digest" .Values.image.repository) -}}
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
{{- include "docgraph.checkSpec" (dict "place" "extraPodSpec" "spec" .Values.extraPodSpec "own" (dict
  "containers" "initContainers with restartPolicy: Always, for a second one beside docgraph"
  "volumes" "extraVolumes" "topologySpreadConstraints" "topologySpread" "terminationGracePeriodSeconds" "preStopSeconds"
  "serviceAccountName" "serviceAccount.name" "automountServiceAccountToken" "serviceAccount.automount" "securityContext" "podSecurityContext"
  "enableServiceLinks" "extraEnv" "imagePullSecrets" "" "nodeSelector" "" "tolerations" "" "affinity" "" "priorityClassName" "")) -}}
{{- include "docgraph.checkSpec" (dict "place" "service.extraSpec" "spec" .Values.service.extraSpec "own" (dict
  "ports" "service.port and service.nodePort" "selector" "podLabels, for a Service of your own" "type" "service.type"
  "sessionAffinity" "service.sessionAffinity" "externalTrafficPolicy" "service.externalTrafficPolicy")) -}}
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

{{/* What is added to a spec may not be what the chart writes there: (dict "place" … "spec" … "own" …), `own` with what to use instead. */}}
{{- define "docgraph.checkSpec" -}}
{{- range $field, $_ := .spec | default dict -}}
{{- if hasKey $.own $field -}}
{{- fail (printf "%s has %s, which the chart sets: use %s" $.place $field (get $.own $field | default (printf "the value %s" $field))) -}}
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
  (list "graphql" "cursor-key" "secretOptions")
  (list "graphql" "previous-cursor-key" "secretOptions")
  (list "otel" "headers" "secretOptions, with /otel/headers/authorization or the name of another header")
  (list "fileRealmAuthenticator" "users" "fileRealmAuthenticator.conf-file, with the file from a Secret in extraVolumes") -}}
{{- range $secrets -}}
{{- if get (get $config (index . 0) | default dict) (index . 1) -}}
{{- fail (printf "config.%s.%s is a secret, and config becomes a ConfigMap: use %s" (index . 0) (index . 1) (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- with regexFind "[a-z]://[^/@:\"]*:[^/@\"]+@[^/\"]*" (toJson $config) -}}
{{- fail (printf "config has an address with a password, before %s, and becomes a ConfigMap: use secretOptions" (last (splitList "@" .))) -}}
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
{{- $own := get $config "database-probe" | default dict -}}
{{- if or $own.secured (eq (get $own "enabled" | toString) "false") -}}
{{- fail "config.database-probe has to be enabled and not secured: helm test requests it" -}}
{{- end -}}
{{- $probes := get (get $config "core" | default dict) "probe-listener" | default dict -}}
{{- if or (hasKey $probes "host") (hasKey $probes "port") -}}
{{- fail "config.core.probe-listener: its host and port are set by the chart: use listenAddress and probePort" -}}
{{- end -}}
{{- if eq (int64 .Values.probePort) (int64 .Values.containerPort) -}}
{{- fail "probePort is the same as containerPort: set another one" -}}
{{- end -}}
{{- end -}}

{{- define "docgraph.checkScaling" -}}
{{- $rolling := .Values.strategy.rollingUpdate | default dict -}}
{{- if and (regexMatch "^0%?$" (index $rolling "maxUnavailable" | toString)) (regexMatch "^0%?$" (index $rolling "maxSurge" | toString)) -}}
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
{{- if and .targetMemoryUtilizationPercentage (not (kindIs "map" (get ($.Values.resources | default dict) "requests"))) -}}
{{- fail "autoscaling.targetMemoryUtilizationPercentage needs resources.requests.memory, of which it is a part" -}}
{{- end -}}
{{- if not (or .targetCPUUtilizationPercentage .targetMemoryUtilizationPercentage .metrics) -}}
{{- fail "autoscaling needs targetCPUUtilizationPercentage, targetMemoryUtilizationPercentage or metrics" -}}
{{- end -}}
{{- end }}{{ end -}}
{{- end -}}

{{/* Not empty where the PodDisruptionBudget lets no instance go: percentages are rounded up, as Kubernetes does it. */}}
{{- define "docgraph.undrainable" -}}
{{- $count := ternary .Values.autoscaling.minReplicas .Values.replicas .Values.autoscaling.enabled | int64 -}}
{{- with .Values.podDisruptionBudget }}{{ if .enabled -}}
{{- $keeps := not (kindIs "invalid" .minAvailable) -}}
{{- $amount := ternary .minAvailable .maxUnavailable $keeps | toString -}}
{{- $number := trimSuffix "%" $amount | int64 -}}
{{- if hasSuffix "%" $amount }}{{ $number = div (add (mul $number $count) 99) 100 }}{{ end -}}
{{- if and (gt $count 0) (ternary (ge $number $count) (eq $number 0) $keeps) }}yes{{ end -}}
{{- end }}{{ end -}}
{{- end -}}
