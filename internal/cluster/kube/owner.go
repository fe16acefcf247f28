package kube

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
)

// stepsUp are the kinds whose controller, if they have one, is what a person
// edits. Above anything else nobody looks: an operator above a StatefulSet is
// not where a fault is mended first.
var stepsUp = map[string]bool{"Pod": true, "ReplicaSet": true, "Job": true, "ReplicationController": true}

// maxOwners bounds the walk: Pod, ReplicaSet, Deployment is the longest usual one.
const maxOwners = 4

// Owner returns the workload (or node, or other object) that a person would
// mend when res has a fault, following controller references with one small
// read a level. When a read fails it returns how far it got, with the error.
func (c *Client) Owner(ctx context.Context, res nightcrier.Resource) (nightcrier.Resource, error) {
	for range maxOwners {
		if !stepsUp[res.Kind] {
			return res, nil
		}
		up, err := c.controllerOf(ctx, res)
		if err != nil {
			return res, err
		}
		if up.IsZero() || up.Kind == "Node" { // a static Pod names its node: the Pod is the thing
			return res, nil
		}
		res = up
	}
	return res, nil
}

// controllerOf returns the controller of res, zero when it has none.
func (c *Client) controllerOf(ctx context.Context, res nightcrier.Resource) (nightcrier.Resource, error) {
	body, err := c.getObject(ctx, res, acceptMeta)
	if err != nil {
		return nightcrier.Resource{}, err
	}
	var obj metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &obj); err != nil {
		return nightcrier.Resource{}, nightcrier.Errorf(nightcrier.Unreachable, "get %s: answer of %s is not an object: %w", res, c.base.Host, err)
	}
	return Controller(&obj), nil
}

// Controller returns what obj's controller reference names, zero without one.
func Controller(obj metav1.Object) nightcrier.Resource {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil {
		return nightcrier.Resource{}
	}
	return nightcrier.Resource{
		APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: obj.GetNamespace(), Name: ref.Name, UID: string(ref.UID),
	}
}
