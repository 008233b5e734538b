{{- define "retrysafe.name" -}}
{{- $name := .Chart.Name -}}
{{- if not (contains $name .Release.Name) -}}{{- $name = printf "%s-%s" .Release.Name $name -}}{{- else -}}{{- $name = .Release.Name -}}{{- end -}}
{{- $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "retrysafe.selector" -}}
app.kubernetes.io/name: retrysafe
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "retrysafe.labels" -}}
{{ include "retrysafe.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/*
The file of the proxy. Proxies that do not share their keys run a retry again that another one has answered, and a file
that is gone with its pod protects nothing: both are errors.
*/}}
{{- define "retrysafe.config" -}}
{{- $store := .Values.config.store | default "" -}}
{{- $shared := or .Values.env.RETRYSAFE_STORE (and (contains ":" $store) (not (hasPrefix "sqlite:" $store)) (not (hasPrefix "memory:" $store))) -}}
{{- $kept := and (eq .Values.form "gateway") .Values.persistence.enabled (not (hasPrefix "memory:" $store)) -}}
{{- if and $kept (or $shared (ne (int .Values.replicas) 1)) -}}
{{- fail "persistence.enabled is for a SQLite file, which one process can open: set replicas to 1 and no store of a server" -}}
{{- end -}}
{{- if not (or $shared $kept) -}}
{{- fail "no store that outlives the pods: set env.RETRYSAFE_STORE to a Secret with the URL of a server, or config.store, or persistence.enabled with one replica" -}}
{{- end -}}
{{- if not (or .Values.config.upstream .Values.env.RETRYSAFE_UPSTREAM .Values.config.ext_proc) -}}
{{- fail "config.upstream is missing: the URL of the API, such as http://api.shop.svc.cluster.local:3000; or config.ext_proc" -}}
{{- end -}}
{{- toYaml (merge (dict "listen" (printf ":%d" (int .Values.ports.http)) "admin" (printf ":%d" (int .Values.ports.admin))) .Values.config) -}}
{{- end -}}

{{/* The container of the proxy, for both forms. */}}
{{- define "retrysafe.container" -}}
name: retrysafe
image: {{ with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [proxy, --config, /etc/retrysafe/proxy.yaml]
{{- with .Values.env }}
env:
  {{- range $name, $from := . }}
  - name: {{ $name }}
    valueFrom: {secretKeyRef: {name: {{ $from.secret }}, key: {{ $from.key }}}}
  {{- end }}
{{- end }}
ports:
  - {name: http, containerPort: {{ int .Values.ports.http }}}
  - {name: admin, containerPort: {{ int .Values.ports.admin }}}
startupProbe: {httpGet: {path: /healthz, port: admin}, periodSeconds: 1, failureThreshold: 60}
livenessProbe: {httpGet: {path: /healthz, port: admin}, periodSeconds: 10, timeoutSeconds: 3}
readinessProbe: {httpGet: {path: /readyz, port: admin}, periodSeconds: 5, timeoutSeconds: 3}
lifecycle: {preStop: {sleep: {seconds: {{ int .Values.preStopSeconds }}}}}
resources: {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  privileged: false
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
volumeMounts:
  - {name: retrysafe-config, mountPath: /etc/retrysafe, readOnly: true}
  {{- if .Values.secretFiles }}
  - {name: retrysafe-secrets, mountPath: /etc/retrysafe-secrets, readOnly: true}
  {{- end }}
  {{- if and (eq .Values.form "gateway") .Values.persistence.enabled }}
  - {name: retrysafe-keys, mountPath: /var/lib/retrysafe}
  {{- end }}
{{- end -}}

{{- define "retrysafe.volumes" -}}
- {name: retrysafe-config, configMap: {name: {{ include "retrysafe.name" . }}}}
{{- if .Values.secretFiles }}
- name: retrysafe-secrets {{- /* the pod that a sidecar is in may have no fsGroup, and files are root's then */}}
  secret: {secretName: {{ .Values.secretFiles }}, defaultMode: {{ ternary "0440" "0444" (eq .Values.form "gateway") }}}
{{- end }}
{{- if and (eq .Values.form "gateway") .Values.persistence.enabled }}
- {name: retrysafe-keys, persistentVolumeClaim: {claimName: {{ include "retrysafe.name" . }}}}
{{- end }}
{{- end -}}

{{/*
For the pod of another chart that depends on this one with form: sidecar. The proxy starts before the API and ends after it:

      initContainers:
        {{- include "retrysafe.sidecar" .Subcharts.retrysafe | nindent 8 }}
      volumes:
        {{- include "retrysafe.volumes" .Subcharts.retrysafe | nindent 8 }}
*/}}
{{- define "retrysafe.sidecar" -}}
- restartPolicy: Always
  {{- include "retrysafe.container" . | nindent 2 }}
{{- end -}}

{{/* Changes with the configuration: as an annotation it restarts the pods. */}}
{{- define "retrysafe.checksum" -}}
{{ include "retrysafe.config" . | sha256sum }}
{{- end -}}
