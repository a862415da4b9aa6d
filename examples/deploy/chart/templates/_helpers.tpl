{{- define "toolgate.labels" -}}
{ app.kubernetes.io/name: toolgate, app.kubernetes.io/instance: {{ .Release.Name | quote }} }
{{- end }}

{{- /* Not empty where the gateways share a database, and so can be several. */}}
{{- define "toolgate.shared" -}}
{{- if eq .Values.store.kind "postgres" }}true{{ end }}
{{- end }}

{{- /* Refuses values that cannot work, where the schema of the values cannot say why. */}}
{{- define "toolgate.check" -}}
{{- $auto := .Values.autoscaling }}
{{- if not (include "toolgate.shared" .) }}
  {{- if gt (int .Values.replicas) 1 }}
    {{- fail (printf "replicas: %d gateways need a database that they share; set store.kind to postgres, and TOOLGATE_STORE in the secret %s" (int .Values.replicas) .Values.secret) }}
  {{- end }}
  {{- if $auto.enabled }}
    {{- fail (printf "autoscaling: several gateways need a database that they share; set store.kind to postgres, and TOOLGATE_STORE in the secret %s" .Values.secret) }}
  {{- end }}
{{- end }}
{{- if $auto.enabled }}
  {{- if gt (int $auto.minReplicas) (int $auto.maxReplicas) }}
    {{- fail (printf "autoscaling: minReplicas is %d and maxReplicas %d; set maxReplicas to at least minReplicas" (int $auto.minReplicas) (int $auto.maxReplicas)) }}
  {{- end }}
  {{- if not (or $auto.sessions $auto.calls $auto.cpu) }}
    {{- fail "autoscaling: nothing says when to scale; set sessions, calls or cpu to more than 0" }}
  {{- end }}
  {{- $otlp := dig "telemetry" "otlp" "" .Values.toolgate }}
  {{- $metrics := dig "telemetry" "metrics" "" .Values.toolgate }}
  {{- if and (or $auto.sessions $auto.calls) (not (and $otlp $metrics)) }}
    {{- fail "autoscaling: sessions and calls are metrics that the pods send; set toolgate.telemetry.otlp to the URL of a collector and toolgate.telemetry.metrics to an interval such as 15s, or scale by cpu alone with sessions and calls 0" }}
  {{- end }}
  {{- if and $auto.cpu (not (dig "requests" "cpu" "" .Values.resources)) }}
    {{- fail "autoscaling: cpu is a part of what the pods request; set resources.requests.cpu" }}
  {{- end }}
{{- end }}
{{- end }}
