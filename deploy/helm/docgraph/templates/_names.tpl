{{/* A name that every kind of object may have, also a Service, whose name begins with a letter and has no dots. */}}
{{- define "docgraph.clean" -}}
{{- $name := regexReplaceAll "[^a-z0-9-]+" (lower .) "-" | trimAll "-" -}}
{{- if not (regexMatch "^[a-z]" $name) }}{{ $name = printf "dg-%s" $name }}{{ end -}}
{{- trunc 63 $name | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the application in labels. */}}
{{- define "docgraph.name" -}}
{{- include "docgraph.clean" (.Values.nameOverride | default .Chart.Name) -}}
{{- end -}}

{{/* The name of the objects: that of the release, and the application's where it is not in it. */}}
{{- define "docgraph.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride -}}
{{- include "docgraph.clean" .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- include "docgraph.clean" .Release.Name -}}
{{- else -}}
{{- include "docgraph.clean" (printf "%s-%s" .Release.Name $name) -}}
{{- end -}}
{{- end -}}

{{/* The name of what is there for `helm test`. */}}
{{- define "docgraph.testname" -}}
{{- include "docgraph.fullname" . | trunc 58 | trimSuffix "-" }}-test
{{- end -}}

{{- define "docgraph.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "docgraph.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* What makes a pod one of ours: never more than this, for selectors of a Deployment cannot be changed. */}}
{{- define "docgraph.selector" -}}
app.kubernetes.io/name: {{ include "docgraph.name" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: server
{{- end -}}

{{/* The pod of `helm test`, which no Service and no policy may take for an instance. */}}
{{- define "docgraph.testSelector" -}}
{{- set (include "docgraph.selector" . | fromYaml) "app.kubernetes.io/component" "test" | toYaml -}}
{{- end -}}

{{/* The labels of an object; ours win over those of the values. */}}
{{- define "docgraph.labels" -}}
{{- $labels := include "docgraph.selector" . | fromYaml -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $labels "app.kubernetes.io/version" (include "docgraph.labelValue" .Chart.AppVersion) -}}
{{- $_ := set $labels "helm.sh/chart" (include "docgraph.labelValue" (printf "%s-%s" .Chart.Name .Chart.Version)) -}}
{{- toYaml (merge $labels (.Values.commonLabels | default dict)) -}}
{{- end -}}

{{- define "docgraph.labelValue" -}}
{{- regexReplaceAll "[^A-Za-z0-9_.-]" . "_" | trunc 63 | trimAll "-_." -}}
{{- end -}}

{{- define "docgraph.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The name of the port, which is that of its protocol. */}}
{{- define "docgraph.scheme" -}}
{{- ternary "https" "http" (not (empty .Values.tls.secretName)) -}}
{{- end -}}

{{- define "docgraph.servicePort" -}}
{{- .Values.service.port | default (ternary 443 80 (not (empty .Values.tls.secretName))) -}}
{{- end -}}
