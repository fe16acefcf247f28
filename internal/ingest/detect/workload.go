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

// commonView is the part that all three have in common.
func (w *workload) commonView(kind Kind) view {
	res := w.Meta.asResource(kind)
	return view{res: res, owner: res, leaving: !w.Meta.Deleted.IsZero()}
}

// wantedReplicas is how many replicas there should be.
func (w *workload) wantedReplicas() int64 {
	if w.Spec.Replicas == nil {
		return 1
	}
	return *w.Spec.Replicas
}

// progressHash changes whenever a rollout or a scaling goes a step forward.
func progressHash(steps ...int64) uint64 {
	h := fnv.New64a()
	for _, n := range steps {
		_ = binary.Write(h, binary.LittleEndian, n) // a hash never fails
	}
	return h.Sum64()
}

func readDeployment(_ *Detector, raw []byte) (view, bool) {
	var w workload
	if !decodeObject(raw, &w) {
		return view{}, false
	}
	v := w.commonView(Deployment)
	wanted := w.wantedReplicas()
	v.healthy = w.Status.Ready >= wanted && w.Status.Updated >= wanted
	if v.leaving || wanted <= 0 {
		return v, true
	}
	going := w.Status.Conditions.findCondition("Progressing")
	if going.hasStatus("False") && going.Reason == "ProgressDeadlineExceeded" && !w.Spec.Paused {
		v.findings = append(v.findings, finding{cause: rolloutStuck, since: laterOf(going.Since.Time, going.Updated.Time),
			context: formatSentence("%s", withQuote("The rollout is stuck, reason: ProgressDeadlineExceeded", going.Message))})
	}
	if c := w.Status.Conditions.findCondition("ReplicaFailure"); c.hasStatus("True") {
		v.findings = append(v.findings, refusalFinding(c.Reason, c.Message, finding{since: c.Since.Time}))
	}
	if c := w.Status.Conditions.findCondition("Available"); c.hasStatus("False") {
		f := finding{cause: unavailable, since: c.Since.Time, context: w.describeAvailable(w.Status.Available, wanted)}
		if going.hasStatus("True") && going.Reason != "NewReplicaSetAvailable" {
			f.cause, f.since = slowRollout, laterOf(c.Since.Time, going.Updated.Time)
			f.progress = progressHash(w.Meta.Generation, w.Status.Updated, wanted)
		}
		v.findings = append(v.findings, f)
	}
	return v, true
}

func (w *workload) describeAvailable(have, wanted int64) string {
	return formatSentence("%d of %d replicas are available", max(have, 0), wanted)
}

func readStatefulSet(_ *Detector, raw []byte) (view, bool) {
	var w workload
	if !decodeObject(raw, &w) {
		return view{}, false
	}
	v := w.commonView(StatefulSet)
	wanted := w.wantedReplicas()
	v.healthy = w.Status.Ready >= wanted
	if v.leaving || wanted <= 0 || v.healthy {
		return v, true
	}
	f := finding{cause: unavailable, context: w.describeAvailable(w.Status.Ready, wanted)}
	if w.Status.Observed < w.Meta.Generation || w.Status.Updated < w.Status.Replicas || w.Status.Replicas < wanted {
		f.cause = slowRollout
	}
	f.progress = progressHash(w.Meta.Generation, w.Status.Updated, w.Status.Replicas, wanted)
	v.findings = append(v.findings, f)
	return v, true
}

// readDaemonSet does not blame a DaemonSet for the nodes that are down.
func readDaemonSet(d *Detector, raw []byte) (view, bool) {
	var w workload
	if !decodeObject(raw, &w) {
		return view{}, false
	}
	v := w.commonView(DaemonSet)
	missing := w.Status.Desired - w.Status.DaemonReady
	v.healthy = missing <= 0
	if v.leaving || missing <= int64(d.nodesDown) {
		return v, true
	}
	f := finding{cause: unavailable, context: formatSentence("%d of %d nodes run the Pod and have it ready", max(w.Status.DaemonReady, 0), w.Status.Desired)}
	if w.Status.Observed < w.Meta.Generation || w.Status.DaemonUpdated < w.Status.Desired {
		f.cause = slowRollout
	}
	f.progress = progressHash(w.Meta.Generation, w.Status.DaemonUpdated, w.Status.Desired)
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
	if !decodeObject(raw, &a) {
		return view{}, false
	}
	res := a.Meta.asResource(Autoscaler)
	v := view{res: res, owner: res, leaving: !a.Meta.Deleted.IsZero()}
	if v.leaving {
		return v, true
	}
	target := cutWord(a.Spec.Target.Kind + " " + a.Spec.Target.Name)
	for _, name := range []string{"ScalingActive", "AbleToScale"} {
		if c := a.Status.Conditions.findCondition(name); c.hasStatus("False") && c.Reason != "ScalingDisabled" {
			v.findings = append(v.findings, finding{cause: metricsMissing, since: c.Since.Time,
				context: formatSentence("%s", withQuote("The autoscaler cannot scale "+target+", reason: "+cutWord(c.Reason), c.Message))})
		}
	}
	if c := a.Status.Conditions.findCondition("ScalingLimited"); c.hasStatus("True") && c.Reason == "TooManyReplicas" && a.Spec.Max > 0 && a.Status.Current >= a.Spec.Max {
		v.findings = append(v.findings, finding{cause: scalingLimited, since: c.Since.Time,
			context: formatSentence("The autoscaler wants more of %s than its maximum of %d replicas", target, min(a.Spec.Max, math.MaxInt32))})
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
	if !decodeObject(raw, &s) {
		return view{}, false
	}
	res := s.Meta.asResource(APIService)
	c := s.Status.Conditions.findCondition("Available")
	v := view{res: res, owner: res, healthy: c.hasStatus("True"), leaving: !s.Meta.Deleted.IsZero()}
	if v.leaving || !c.hasStatus("False") {
		return v, true
	}
	behind := ""
	if s.Spec.Service != nil {
		behind = " Service " + cutWord(s.Spec.Service.Namespace) + "/" + cutWord(s.Spec.Service.Name) + " should serve it."
	}
	v.findings = append(v.findings, finding{cause: apiUnavailable, since: c.Since.Time,
		context: formatSentence("%s", withQuote("The API "+cutWord(res.Name)+" is not available."+behind+" Reason: "+cutWord(c.Reason), c.Message))})
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
	if !decodeObject(raw, &n) {
		return view{}, false
	}
	res := n.Meta.asResource(Namespace)
	v := view{res: res, owner: res}
	if n.Meta.Deleted.IsZero() {
		return v, true
	}
	why := ""
	for _, c := range n.Status.Conditions {
		if c.hasStatus("True") && c.Message != "" && len(why) < maxQuoted {
			why += cutWord(c.Type) + ": " + cutQuote(c.Message) + " "
		}
	}
	v.findings = append(v.findings, finding{cause: namespaceStuck, since: n.Meta.Deleted.Time,
		context: formatSentence("%s", withQuote("The namespace is being deleted and does not go away", why))})
	return v, true
}

// refusalFinding is a controller that may not make what it wants to make.
func refusalFinding(reason, message string, f finding) finding {
	f.cause = createRefused
	f.context = formatSentence("%s", withQuote("No Pod can be made, reason: "+cutWord(reason), message))
	if to, ok := webhookService(message); ok {
		f.cause, f.owner = webhookFails, to
		f.context = formatSentence("%s", withQuote("An admission webhook does not answer, so that nothing can be made", message))
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
