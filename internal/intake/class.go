package intake

import (
	"strings"

	"nightcrier.dev/nightcrier"
)

// classes is the table from fault types to classes, in lower case without
// separators: senders spell them differently.
var classes = map[string]nightcrier.Class{
	"crashloop":         nightcrier.ClassWorkload,
	"crashloopbackoff":  nightcrier.ClassWorkload,
	"podcrash":          nightcrier.ClassWorkload,
	"oomkilled":         nightcrier.ClassWorkload,
	"oom":               nightcrier.ClassWorkload,
	"imagepull":         nightcrier.ClassWorkload,
	"imagepullbackoff":  nightcrier.ClassWorkload,
	"startfailure":      nightcrier.ClassWorkload,
	"probefailed":       nightcrier.ClassWorkload,
	"deploymentfailure": nightcrier.ClassWorkload,
	"failedcreate":      nightcrier.ClassWorkload,
	"unavailable":       nightcrier.ClassWorkload,
	"scalingfailed":     nightcrier.ClassWorkload,
	"scalinglimited":    nightcrier.ClassWorkload,
	"namespacestuck":    nightcrier.ClassWorkload,

	"unschedulable":    nightcrier.ClassScheduling,
	"failedscheduling": nightcrier.ClassScheduling,
	"evicted":          nightcrier.ClassScheduling,
	"preempted":        nightcrier.ClassScheduling,

	"failedmount":        nightcrier.ClassStorage,
	"failedattachvolume": nightcrier.ClassStorage,
	"provisioningfailed": nightcrier.ClassStorage,

	"jobfailure":     nightcrier.ClassJob,
	"missedschedule": nightcrier.ClassJob,

	"nodeunhealthy": nightcrier.ClassNode,
	"nodenotready":  nightcrier.ClassNode,
	"nodepressure":  nightcrier.ClassNode,

	"servicefailure":        nightcrier.ClassService,
	"webhookfailure":        nightcrier.ClassService,
	"apiserviceunavailable": nightcrier.ClassService,
	"apiunready":            nightcrier.ClassService,
}

// kindClasses classes the faults whose type says nothing, by what has them.
var kindClasses = map[string]nightcrier.Class{
	"Node":                  nightcrier.ClassNode,
	"Job":                   nightcrier.ClassJob,
	"CronJob":               nightcrier.ClassJob,
	"PersistentVolume":      nightcrier.ClassStorage,
	"PersistentVolumeClaim": nightcrier.ClassStorage,
	"StorageClass":          nightcrier.ClassStorage,
	"VolumeAttachment":      nightcrier.ClassStorage,
	"Service":               nightcrier.ClassService,
	"Endpoints":             nightcrier.ClassService,
	"EndpointSlice":         nightcrier.ClassService,
	"Ingress":               nightcrier.ClassService,
	"NetworkPolicy":         nightcrier.ClassService,
	"Gateway":               nightcrier.ClassService,
	"HTTPRoute":             nightcrier.ClassService,
}

// ClassOf returns the class of a fault of an owner. A Job whose Pods crash has
// failed as a Job: both reports are one fault.
func ClassOf(faultType, ownerKind string) nightcrier.Class {
	class, known := classes[plain(faultType)]
	byKind, kindSays := kindClasses[ownerKind]
	switch {
	case known && class == nightcrier.ClassWorkload && byKind == nightcrier.ClassJob:
		return nightcrier.ClassJob
	case known:
		return class
	case kindSays:
		return byKind
	}
	return nightcrier.ClassWorkload
}

// plain drops what two spellings of one fault type differ in.
func plain(faultType string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(faultType))
}
