package detect

import "time"

// claim is what is read of a PersistentVolumeClaim.
type claim struct {
	Meta struct {
		meta
		Annotations struct {
			Provisioner string `json:"volume.kubernetes.io/storage-provisioner"`
			Beta        string `json:"volume.beta.kubernetes.io/storage-provisioner"`
			Node        string `json:"volume.kubernetes.io/selected-node"`
		} `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Volume string `json:"volumeName"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

// readClaim: a claim that waits for its first Pod is no fault. One that does not
// has been given to a provisioner, or asks for a volume by name.
func readClaim(d *Detector, raw []byte) (view, bool) {
	var c claim
	if !decodeObject(raw, &c) {
		return view{}, false
	}
	res := c.Meta.asResource(Claim)
	v := view{res: res, owner: res, healthy: c.Status.Phase == "Bound", leaving: !c.Meta.Deleted.IsZero()}
	switch asked := c.Meta.Annotations; {
	case v.leaving:
	case c.Status.Phase == "Lost":
		v.findings = append(v.findings, finding{cause: claimLost,
			context: formatSentence("The volume %s that the claim was bound to does not exist any more", cutWord(c.Spec.Volume))})
	case c.Status.Phase != "Pending":
	case asked.Provisioner != "" || asked.Beta != "" || asked.Node != "":
		v.findings = append(v.findings, finding{cause: claimPending, since: c.pendingSince(d),
			context: formatSentence("The provisioner %s has not made a volume for the claim", cutWord(asked.Provisioner+asked.Beta))})
	case c.Spec.Volume != "":
		v.findings = append(v.findings, finding{cause: claimPending, since: c.pendingSince(d),
			context: formatSentence("The claim waits for the volume %s, which is not there or not free", cutWord(c.Spec.Volume))})
	}
	return v, true
}

// pendingSince is the claim's age, unless it was seen to change: it may just
// have got its first Pod.
func (c *claim) pendingSince(d *Detector) time.Time {
	if d.censusOf(Claim, c.Meta.Namespace).listing {
		return c.Meta.Created.Time
	}
	return d.now
}
