package intake

import "nightcrier.dev/nightcrier"

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
	known, _ := nightcrier.FaultTypeCalled(faultType)
	byKind, kindSays := kindClasses[ownerKind]
	switch {
	case known.Class == nightcrier.ClassWorkload && byKind == nightcrier.ClassJob:
		return nightcrier.ClassJob
	case known.Class != "":
		return known.Class
	case kindSays:
		return byKind
	}
	return nightcrier.ClassWorkload
}
