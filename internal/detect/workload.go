package detect

import (
	"encoding/binary"
	"hash/fnv"
	"math"

	"nightcrier.dev/nightcrier"
)

// workload is what is read of a Deployment, a StatefulSet or a DaemonSet.
type workload struct {
	Meta meta `json:"metadata"`
	Spec struct {
		Replicas *int64 `json:"replicas"`
		Paused   bool   `json:"paused"`
	} `json:"spec"`
	Status struct {
		Observed   int64      `json:"observedGeneration"`
		Replicas   int64      `json:"replicas"`
		Ready      int64      `json:"readyReplicas"`
		Updated    int64      `json:"updatedReplicas"`
		Available  int64      `json:"availableReplicas"`
		Conditions conditions `json:"conditions"`

		// Of DaemonSets.
		Desired       int64 `json:"desiredNumberScheduled"`
		DaemonReady   int64 `json:"numberReady"`
		DaemonUpdated int64 `json:"updatedNumberScheduled"`
	} `json:"status"`
}

// view is the part that all three have in common.
func (w *workload) view(kind Kind) view {
	res := w.Meta.resource(kind)
	return view{res: res, owner: res, leaving: !w.Meta.Deleted.IsZero()}
}

// wanted is how many replicas there should be.
func (w *workload) wanted() int64 {
	if w.Spec.Replicas == nil {
		return 1
	}
	return *w.Spec.Replicas
}

// progress changes whenever a rollout or a scaling goes a step forward.
func progress(steps ...int64) uint64 {
	h := fnv.New64a()
	for _, n := range steps {
		_ = binary.Write(h, binary.LittleEndian, n) // a hash never fails
	}
	return h.Sum64()
}

func readDeployment(_ *Detector, raw []byte) (view, bool) {
	var w workload
	if !decode(raw, &w) {
		return view{}, false
	}
	v := w.view(Deployment)
	wanted := w.wanted()
	v.healthy = w.Status.Ready >= wanted && w.Status.Updated >= wanted
	if v.leaving || wanted <= 0 {
		return v, true
	}
	going := w.Status.Conditions.of("Progressing")
	if going.is("False") && going.Reason == "ProgressDeadlineExceeded" && !w.Spec.Paused {
		v.findings = append(v.findings, finding{cause: rolloutStuck, since: latest(going.Since.Time, going.Updated.Time),
			context: say("%s", with("The rollout is stuck, reason: ProgressDeadlineExceeded", going.Message))})
	}
	if c := w.Status.Conditions.of("ReplicaFailure"); c.is("True") {
		v.findings = append(v.findings, refusal(c.Reason, c.Message, finding{since: c.Since.Time}))
	}
	if c := w.Status.Conditions.of("Available"); c.is("False") {
		f := finding{cause: unavailable, since: c.Since.Time, context: w.missing(w.Status.Available, wanted)}
		if going.is("True") && going.Reason != "NewReplicaSetAvailable" {
			f.cause, f.since = slowRollout, latest(c.Since.Time, going.Updated.Time)
			f.progress = progress(w.Meta.Generation, w.Status.Updated, wanted)
		}
		v.findings = append(v.findings, f)
	}
	return v, true
}

func (w *workload) missing(have, wanted int64) string {
	return say("%d of %d replicas are available", max(have, 0), wanted)
}

func readStatefulSet(_ *Detector, raw []byte) (view, bool) {
	var w workload
	if !decode(raw, &w) {
		return view{}, false
	}
	v := w.view(StatefulSet)
	wanted := w.wanted()
	v.healthy = w.Status.Ready >= wanted
	if v.leaving || wanted <= 0 || v.healthy {
		return v, true
	}
	f := finding{cause: unavailable, context: w.missing(w.Status.Ready, wanted)}
	if w.Status.Observed < w.Meta.Generation || w.Status.Updated < w.Status.Replicas || w.Status.Replicas < wanted {
		f.cause = slowRollout
	}
	f.progress = progress(w.Meta.Generation, w.Status.Updated, w.Status.Replicas, wanted)
	v.findings = append(v.findings, f)
	return v, true
}

// readDaemonSet does not blame a DaemonSet for the nodes that are down.
func readDaemonSet(d *Detector, raw []byte) (view, bool) {
	var w workload
	if !decode(raw, &w) {
		return view{}, false
	}
	v := w.view(DaemonSet)
	missing := w.Status.Desired - w.Status.DaemonReady
	v.healthy = missing <= 0
	if v.leaving || missing <= int64(d.nodesDown) {
		return v, true
	}
	f := finding{cause: unavailable, context: say("%d of %d nodes run the Pod and have it ready", max(w.Status.DaemonReady, 0), w.Status.Desired)}
	if w.Status.Observed < w.Meta.Generation || w.Status.DaemonUpdated < w.Status.Desired {
		f.cause = slowRollout
	}
	f.progress = progress(w.Meta.Generation, w.Status.DaemonUpdated, w.Status.Desired)
	v.findings = append(v.findings, f)
	return v, true
}

// autoscaler is what is read of a HorizontalPodAutoscaler.
type autoscaler struct {
	Meta meta `json:"metadata"`
	Spec struct {
		Max    int64 `json:"maxReplicas"`
		Target owner `json:"scaleTargetRef"`
	} `json:"spec"`
	Status struct {
		Current    int64      `json:"currentReplicas"`
		Conditions conditions `json:"conditions"`
	} `json:"status"`
}

func readAutoscaler(_ *Detector, raw []byte) (view, bool) {
	var a autoscaler
	if !decode(raw, &a) {
		return view{}, false
	}
	res := a.Meta.resource(Autoscaler)
	v := view{res: res, owner: res, leaving: !a.Meta.Deleted.IsZero()}
	if v.leaving {
		return v, true
	}
	target := word(a.Spec.Target.Kind + " " + a.Spec.Target.Name)
	for _, name := range []string{"ScalingActive", "AbleToScale"} {
		if c := a.Status.Conditions.of(name); c.is("False") && c.Reason != "ScalingDisabled" {
			v.findings = append(v.findings, finding{cause: metricsMissing, since: c.Since.Time,
				context: say("%s", with("The autoscaler cannot scale "+target+", reason: "+word(c.Reason), c.Message))})
		}
	}
	if c := a.Status.Conditions.of("ScalingLimited"); c.is("True") && c.Reason == "TooManyReplicas" && a.Spec.Max > 0 && a.Status.Current >= a.Spec.Max {
		v.findings = append(v.findings, finding{cause: scalingLimited, since: c.Since.Time,
			context: say("The autoscaler wants more of %s than its maximum of %d replicas", target, min(a.Spec.Max, math.MaxInt32))})
	}
	return v, true
}

// service is what is read of an APIService.
type service struct {
	Meta meta `json:"metadata"`
	Spec struct {
		Service *struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"service"`
	} `json:"spec"`
	Status struct {
		Conditions conditions `json:"conditions"`
	} `json:"status"`
}

func readAPIService(_ *Detector, raw []byte) (view, bool) {
	var s service
	if !decode(raw, &s) {
		return view{}, false
	}
	res := s.Meta.resource(APIService)
	c := s.Status.Conditions.of("Available")
	v := view{res: res, owner: res, healthy: c.is("True"), leaving: !s.Meta.Deleted.IsZero()}
	if v.leaving || !c.is("False") {
		return v, true
	}
	behind := ""
	if s.Spec.Service != nil {
		behind = " Service " + word(s.Spec.Service.Namespace) + "/" + word(s.Spec.Service.Name) + " should serve it."
	}
	v.findings = append(v.findings, finding{cause: apiUnavailable, since: c.Since.Time,
		context: say("%s", with("The API "+word(res.Name)+" is not available."+behind+" Reason: "+word(c.Reason), c.Message))})
	return v, true
}

// namespace is what is read of a Namespace.
type namespace struct {
	Meta   meta `json:"metadata"`
	Status struct {
		Conditions conditions `json:"conditions"`
	} `json:"status"`
}

func readNamespace(_ *Detector, raw []byte) (view, bool) {
	var n namespace
	if !decode(raw, &n) {
		return view{}, false
	}
	res := n.Meta.resource(Namespace)
	v := view{res: res, owner: res}
	if n.Meta.Deleted.IsZero() {
		return v, true
	}
	why := ""
	for _, c := range n.Status.Conditions {
		if c.is("True") && c.Message != "" && len(why) < maxQuoted {
			why += word(c.Type) + ": " + quote(c.Message) + " "
		}
	}
	v.findings = append(v.findings, finding{cause: namespaceStuck, since: n.Meta.Deleted.Time,
		context: say("%s", with("The namespace is being deleted and does not go away", why))})
	return v, true
}

// refusal is a controller that may not make what it wants to make.
func refusal(reason, message string, f finding) finding {
	f.cause = createRefused
	f.context = say("%s", with("No Pod can be made, reason: "+word(reason), message))
	if to, ok := webhookService(message); ok {
		f.cause, f.owner = webhookFails, to
		f.context = say("%s", with("An admission webhook does not answer, so that nothing can be made", message))
	}
	return f
}

// webhookService finds the Service behind an admission webhook that failed, in
// the API server's words.
func webhookService(message string) (nightcrier.Resource, bool) {
	m := webhookURL.FindStringSubmatch(message[:min(len(message), 4*maxContext)])
	if m == nil {
		return nightcrier.Resource{}, false
	}
	res := nightcrier.Resource{APIVersion: "v1", Kind: "Service", Namespace: m[2], Name: m[1]}
	return res, res.Check() == nil
}
