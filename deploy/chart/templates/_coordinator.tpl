{{/* The spec of a pod that runs `forge VERB TARGET ARGUMENTS` as a coordinator; the target is a path on the volume. */}}
{{- define "forge.coordinator" -}}
{{- $root := .root -}}
restartPolicy: Never
serviceAccountName: {{ $root.Release.Name }}-coordinator
{{- with $root.Values.pod }}
{{ toYaml . }}
{{- end }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ $root.Values.user }}
  runAsGroup: {{ $root.Values.user }}
  fsGroup: {{ $root.Values.user }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- if $root.Values.project.configMaps }}
initContainers:
  - name: project
    image: {{ include "forge.image" $root }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    command:
      - sh
      - -ec
      - |
        while [ $# -gt 1 ]; do mkdir -p "$2"; cp -L "$1"/* "$2"/; shift 2; done
      - sh
      {{- range $at, $map := $root.Values.project.configMaps }}
      - /project/{{ $at }}
      - {{ printf "%s/%s" $root.Values.volume.path $map.folder | quote }}
      {{- end }}
    securityContext: {{ include "forge.containerSecurity" $root }}
    volumeMounts:
      - { name: volume, mountPath: {{ $root.Values.volume.path | quote }} }
      {{- range $at, $map := $root.Values.project.configMaps }}
      - { name: project-{{ $at }}, mountPath: /project/{{ $at }}, readOnly: true }
      {{- end }}
{{- end }}
containers:
  - name: coordinator
    image: {{ include "forge.image" $root }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    command:
      - forge
      - {{ .verb }}
      - {{ printf "%s/%s" $root.Values.volume.path .target | quote }}
      {{- range .args }}
      - {{ . | quote }}
      {{- end }}
    env:
      - { name: HOME, value: /home/forge }
      {{- with $root.Values.env }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- with $root.Values.envFrom }}
    envFrom: {{ toJson . }}
    {{- end }}
    securityContext: {{ include "forge.containerSecurity" $root }}
    resources: {{ toJson $root.Values.resources }}
    volumeMounts:
      - { name: volume, mountPath: {{ $root.Values.volume.path | quote }} }
      - { name: kubeconfig, mountPath: /home/forge/.kube, readOnly: true }
      - { name: tmp, mountPath: /tmp }
      {{- range $name, $path := $root.Values.secrets }}
      - { name: secret-{{ $name }}, mountPath: {{ $path | quote }}, readOnly: true }
      {{- end }}
      {{- with $root.Values.volumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  - name: volume
    persistentVolumeClaim: { claimName: {{ $root.Values.volume.claim | quote }} }
  - name: kubeconfig
    configMap: { name: {{ $root.Release.Name }}-kubeconfig }
  - name: tmp
    emptyDir: {}
  {{- range $at, $map := $root.Values.project.configMaps }}
  - name: project-{{ $at }}
    configMap: { name: {{ $map.name | quote }} }
  {{- end }}
  {{- range $name, $path := $root.Values.secrets }}
  - name: secret-{{ $name }}
    # root owns the files and the group of the pod can read them: ssh checks the mode only of keys that its own user
    # owns.
    secret: { secretName: {{ $name | quote }}, defaultMode: 0400 }
  {{- end }}
  {{- with $root.Values.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "forge.image" -}}
{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote }}
{{- end }}

{{- define "forge.containerSecurity" -}}
{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: [ALL] } }
{{- end }}
