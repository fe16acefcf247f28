package deploy

import (
	"fmt"
	"strings"
)

// maxReplicas bounds how many Pods of one object run.
const maxReplicas = 50

// shapeOf is what an object of that kind may hold.
func shapeOf(kind string) func(*checking) shape {
	return func(c *checking) shape {
		top := shape{"apiVersion": plain, "kind": plain, "metadata": c.objectOf(metadataShape), "status": never("it is the cluster's to say")}
		if kind == "ConfigMap" {
			return top.with(fieldsOf("data binaryData immutable"))
		}
		spec := map[string]func(*checking) shape{
			"Deployment": deploymentShape, "StatefulSet": statefulSetShape, "Job": jobShape, "CronJob": cronJobShape,
			"Service": serviceShape, "Ingress": ingressShape, "HorizontalPodAutoscaler": autoscalerShape,
		}[kind]
		return top.with(shape{"spec": c.objectOf(spec)})
	}
}

func metadataShape(c *checking) shape {
	return shape{
		"name": namedObject, "namespace": namedObject, "labels": c.ownKeys, "annotations": c.ownKeys,
		"generateName":      never("the same manifest would make another object each time: give it a name"),
		"ownerReferences":   never("what owns an object decides when it is deleted"),
		"finalizers":        never("they keep an object from being deleted"),
		"managedFields":     never("the API server writes them"),
		"creationTimestamp": never("the API server writes it"), "uid": never("the API server writes it"), "resourceVersion": never("the API server writes it"),
	}
}

func templateShape(c *checking) shape {
	meta := shape{"labels": c.ownKeys, "annotations": c.ownKeys, "name": plain}
	return shape{"metadata": c.rulesOf(meta), "spec": c.objectOf(podShape)}
}

func (c *checking) selector() rule {
	return c.rulesOf(shape{"matchLabels": c.ownKeys})
}

func deploymentShape(c *checking) shape {
	return fieldsOf("minReadySeconds progressDeadlineSeconds revisionHistoryLimit strategy paused").with(shape{
		"replicas": upTo(maxReplicas), "selector": c.selector(), "template": c.objectOf(templateShape),
	})
}

func statefulSetShape(c *checking) shape {
	claim := shape{
		"apiVersion": plain, "kind": plain,
		"metadata": c.rulesOf(shape{"name": namedObject, "labels": c.ownKeys, "annotations": c.ownKeys}),
		"spec": c.rulesOf(fieldsOf("accessModes resources storageClassName").with(shape{
			"volumeMode": only("Filesystem"),
			"dataSource": never("it would copy a volume of others"), "dataSourceRef": never("it would copy a volume of others"),
			"volumeName": never("it would take a volume of others"), "selector": never("it would take a volume of others"),
		})),
	}
	return fieldsOf("minReadySeconds revisionHistoryLimit podManagementPolicy serviceName updateStrategy persistentVolumeClaimRetentionPolicy ordinals").with(shape{
		"replicas": upTo(maxReplicas), "selector": c.selector(), "template": c.objectOf(templateShape),
		"volumeClaimTemplates": listOf(c.rulesOf(claim)),
	})
}

func jobShape(c *checking) shape {
	return fieldsOf("activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode maxFailedIndexes podFailurePolicy suspend ttlSecondsAfterFinished").with(shape{
		"parallelism": upTo(maxReplicas), "completions": upTo(1000), "template": c.objectOf(templateShape),
		"manualSelector": never("it could take over Pods of others"), "selector": never("it could take over Pods of others"),
		"managedBy": never("another controller would run it"),
	})
}

func cronJobShape(c *checking) shape {
	job := shape{"metadata": c.rulesOf(shape{"labels": c.ownKeys, "annotations": c.ownKeys}), "spec": c.objectOf(jobShape)}
	return fieldsOf("concurrencyPolicy failedJobsHistoryLimit schedule startingDeadlineSeconds successfulJobsHistoryLimit suspend timeZone").with(shape{
		"jobTemplate": c.rulesOf(job),
	})
}

func serviceShape(c *checking) shape {
	kinds := []any{"ClusterIP"}
	if c.policy.NodePorts {
		kinds = append(kinds, "NodePort")
	}
	port := fieldsOf("name port protocol targetPort appProtocol").with(shape{"nodePort": never("the cluster chooses it")})
	return fieldsOf("sessionAffinity sessionAffinityConfig publishNotReadyAddresses ipFamilyPolicy ipFamilies internalTrafficPolicy").with(shape{
		"type": only(kinds...), "clusterIP": only("None"), "selector": c.ownKeys, "ports": listOf(c.rulesOf(port)),
		"externalIPs": never("it would take over traffic for other addresses"), "externalName": never("it would give a name of the cluster to a stranger"),
		"loadBalancerIP": never("it would open the application to the world"),
	})
}

func ingressShape(c *checking) shape {
	service := c.rulesOf(shape{"name": c.points("Service"), "port": plain})
	backend := c.rulesOf(shape{"service": service, "resource": never("a backend is a Service")})
	path := c.rulesOf(shape{"path": urlPath, "pathType": plain, "backend": backend})
	http := c.rulesOf(shape{"paths": listOf(path)})
	one := func(at string, v any) error {
		if m, ok := v.(map[string]any); ok && m["host"] == nil {
			return fmt.Errorf("%s.host is missing: without it the Ingress claims every host", at)
		}
		return c.rulesOf(shape{"host": c.ownHost, "http": http})(at, v)
	}
	return shape{
		"ingressClassName": plain, "rules": listOf(one), "defaultBackend": never("it claims every host"),
		"tls": listOf(c.rulesOf(shape{"hosts": listOf(c.ownHost), "secretName": c.secretName})),
	}
}

// urlPath is a path without what ends a word in the configuration of a proxy: some write it there as
// it is.
func urlPath(at string, v any) error {
	s, ok := v.(string)
	if !ok {
		return wrongType(at, "a text")
	}
	if strings.ContainsAny(s, "{};#\\\"'`") || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%s: %.80q holds what some proxies take for more than a path", at, s)
	}
	return nil
}

func autoscalerShape(c *checking) shape {
	target := func(at string, v any) error {
		m, _ := v.(map[string]any)
		kind, _ := m["kind"].(string)
		return c.rulesOf(shape{"apiVersion": only("apps/v1"), "kind": only("Deployment", "StatefulSet"), "name": c.points(kind)})(at, v)
	}
	metric := shape{"type": only("Resource", "ContainerResource"), "resource": plain, "containerResource": plain}
	return shape{
		"scaleTargetRef": target, "minReplicas": upTo(maxReplicas), "maxReplicas": upTo(maxReplicas),
		"metrics": listOf(c.rulesOf(metric)), "behavior": plain,
	}
}
