package deploy

import (
	"fmt"
	"strings"
)

// The reasons that several fields share.
const (
	ofTheNode   = "it would give the Pod what belongs to its node"
	ofTheAPI    = "Pods that are deployed here get no access to the Kubernetes API"
	ofTheOthers = "it would put the Pod before those of others"
)

// podShape is what a Pod's template may hold: about the level "baseline" of the Pod Security
// Standards, without any token, volume or Secret of others.
func podShape(c *checking) shape {
	containers := listOf(c.objectOf(containerShape))
	return fieldsOf("activeDeadlineSeconds dnsPolicy enableServiceLinks nodeSelector restartPolicy subdomain terminationGracePeriodSeconds topologySpreadConstraints").with(shape{
		"containers": containers, "initContainers": containers, "volumes": listOf(c.objectOf(volumeShape)),
		"affinity":                     c.objectOf(affinityShape),
		"hostname":                     never("with a subdomain the Pod would be found by names from outside, such as example.com"),
		"securityContext":              c.objectOf(podSecurityShape),
		"imagePullSecrets":             listOf(c.rulesOf(shape{"name": c.secretName})),
		"serviceAccountName":           only("default"),
		"serviceAccount":               only("default"),
		"automountServiceAccountToken": onlyFalse(ofTheAPI),
		"hostNetwork":                  onlyFalse(ofTheNode), "hostPID": onlyFalse(ofTheNode), "hostIPC": onlyFalse(ofTheNode),
		"shareProcessNamespace": onlyFalse("containers would see each other's memory"),
		"ephemeralContainers":   never("containers are not put into a running Pod"),
		"nodeName":              never("it would go past the scheduler"), "schedulerName": only("default-scheduler"),
		"tolerations":       never("it would put the Pod on nodes that keep Pods away"),
		"priorityClassName": never(ofTheOthers), "priority": never(ofTheOthers), "preemptionPolicy": never(ofTheOthers),
		"runtimeClassName": never("it would choose what confines the Pod"),
	})
}

// affinityShape names Pods of the same namespace alone: a Pod that may not stand beside others keeps
// those away from its node as well, whosever they are.
func affinityShape(c *checking) shape {
	elsewhere := never("it would keep Pods of other namespaces from their nodes")
	term := c.rulesOf(shape{
		"labelSelector": c.rulesOf(shape{"matchLabels": aMapping, "matchExpressions": plain}),
		"topologyKey":   plain, "matchLabelKeys": plain, "mismatchLabelKeys": plain,
		"namespaces": elsewhere, "namespaceSelector": elsewhere,
	})
	pods := c.rulesOf(shape{
		"requiredDuringSchedulingIgnoredDuringExecution":  listOf(term),
		"preferredDuringSchedulingIgnoredDuringExecution": listOf(c.rulesOf(shape{"weight": plain, "podAffinityTerm": term})),
	})
	return shape{"nodeAffinity": plain, "podAffinity": pods, "podAntiAffinity": pods}
}

// onlyFalse takes the value that changes nothing.
func onlyFalse(why string) rule {
	return func(at string, v any) error {
		if v == false {
			return nil
		}
		return fmt.Errorf("%s may only be false: %s", at, why)
	}
}

func podSecurityShape(c *checking) shape {
	return fieldsOf("runAsUser runAsGroup runAsNonRoot fsGroup fsGroupChangePolicy supplementalGroups").with(shape{
		"seccompProfile": c.rulesOf(shape{"type": only("RuntimeDefault")}), "appArmorProfile": c.rulesOf(shape{"type": only("RuntimeDefault")}),
		"sysctls": never(ofTheNode),
	})
}

func containerShape(c *checking) shape {
	port := fieldsOf("name containerPort protocol").with(shape{"hostPort": never(ofTheNode), "hostIP": never(ofTheNode)})
	handler := c.objectOf(handlerShape)
	mount := fieldsOf("name mountPath readOnly").with(shape{
		"subPath": relativePath, "subPathExpr": never("it is a path that the container makes"), "mountPropagation": only("None"),
	})
	return fieldsOf("name image imagePullPolicy command args workingDir terminationMessagePath terminationMessagePolicy").with(shape{
		"ports": listOf(c.rulesOf(port)), "env": listOf(c.objectOf(variableShape)),
		"envFrom": listOf(c.rulesOf(shape{
			"prefix": plain, "configMapRef": plain, "secretRef": c.rulesOf(shape{"name": c.secretName, "optional": plain}),
		})),
		"resources":    c.rulesOf(shape{"limits": plain, "requests": plain}),
		"volumeMounts": listOf(c.rulesOf(mount)), "volumeDevices": never(ofTheNode),
		"livenessProbe": handler, "readinessProbe": handler, "startupProbe": handler,
		"lifecycle":     c.rulesOf(shape{"postStart": handler, "preStop": handler, "stopSignal": plain}),
		"restartPolicy": only("Always"), "securityContext": c.objectOf(containerSecurityShape),
	})
}

// relativePath is a path within a volume.
func relativePath(at string, v any) error {
	s, ok := v.(string)
	if !ok {
		return wrongType(at, "a text")
	}
	if strings.HasPrefix(s, "/") || strings.Contains("/"+s+"/", "/../") {
		return fmt.Errorf("%s leads out of its volume", at)
	}
	return nil
}

func containerSecurityShape(c *checking) shape {
	return fieldsOf("runAsUser runAsGroup runAsNonRoot readOnlyRootFilesystem").with(shape{
		"privileged": onlyFalse(ofTheNode), "allowPrivilegeEscalation": onlyFalse("a program could get more rights than it was started with"),
		"capabilities":   c.rulesOf(shape{"drop": plain, "add": listOf(only("NET_BIND_SERVICE"))}),
		"seccompProfile": c.rulesOf(shape{"type": only("RuntimeDefault")}), "appArmorProfile": c.rulesOf(shape{"type": only("RuntimeDefault")}),
		"procMount": only("Default"), "seLinuxOptions": never(ofTheNode), "windowsOptions": never(ofTheNode),
	})
}

// handlerShape is a probe or a hook. The kubelet makes their requests, so they name no host.
func handlerShape(c *checking) shape {
	host := never("the node would send requests there")
	return fieldsOf("exec grpc sleep initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold terminationGracePeriodSeconds").with(shape{
		"httpGet":   c.rulesOf(fieldsOf("path port scheme httpHeaders").with(shape{"host": host})),
		"tcpSocket": c.rulesOf(shape{"port": plain, "host": host}),
	})
}

func variableShape(c *checking) shape {
	from := shape{
		"configMapKeyRef": plain, "fieldRef": plain, "resourceFieldRef": plain,
		"secretKeyRef": c.rulesOf(shape{"name": c.secretName, "key": plain, "optional": plain}),
	}
	return shape{"name": plain, "value": plain, "valueFrom": c.rulesOf(from)}
}

func volumeShape(c *checking) shape {
	secret := fieldsOf("items defaultMode optional").with(shape{"secretName": c.secretName})
	source := c.rulesOf(shape{
		"configMap": plain, "downwardAPI": plain, "secret": c.rulesOf(fieldsOf("items optional").with(shape{"name": c.secretName})),
		"serviceAccountToken": never(ofTheAPI), "clusterTrustBundle": never(ofTheAPI), "podCertificate": never(ofTheAPI),
	})
	return shape{
		"name": plain, "emptyDir": plain, "configMap": plain, "downwardAPI": plain, "secret": c.rulesOf(secret),
		"projected":             c.rulesOf(shape{"defaultMode": plain, "sources": listOf(source)}),
		"hostPath":              never(ofTheNode),
		"persistentVolumeClaim": never("it may be one of others: a StatefulSet makes claims of its own"),
	}
}
