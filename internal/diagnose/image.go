package diagnose

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

var imageRules = area{of: []Rule{imageNotPulled}}

var imageCauses = []Cause{
	{ID: "image-name-invalid", Category: "Pod", Meaning: "the image reference cannot be parsed", Rank: rankStated},
	{ID: "image-not-found", Category: "Pod", Meaning: "the registry has no such image or tag", Rank: rankStated},
	{ID: "image-not-present", Category: "Pod", Meaning: "the pull policy forbids pulling and the node does not have the image", Rank: rankStated},
	{ID: "image-platform-mismatch", Category: "Pod", Meaning: "the image is built for another operating system or processor than the node has", Rank: rankStated},
	{ID: "image-pull-failed", Category: "Pod", Meaning: "the image cannot be pulled; the cluster does not say why", Rank: rankStated - 1},
	{ID: "image-pull-rate-limited", Category: "Pod", Meaning: "the registry refuses because of too many pulls", Rank: rankStated},
	{ID: "image-pull-secret-missing", Category: "Pod", Meaning: "the pull secret that the Pod names does not exist", Rank: rankStated + 1},
	{ID: "image-pull-unauthorized", Category: "Pod", Meaning: "the registry refuses the credential, or none was sent", Rank: rankStated},
	{ID: "image-registry-unreachable", Category: "Network", Meaning: "the node cannot reach the registry", Rank: rankStated},
}

// imageTrouble matches text that is about an image that cannot be had.
var imageTrouble = newPattern(`ImagePullBackOff|ErrImage\w+|InvalidImageName|[Ff]ailed to pull|[Bb]ack-off pulling image`)

// imageReasons are the reasons that a container waits for its image with.
var imageReasons = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
}

// imageWords tell the cause from what the container runtime and the registry
// said; the first that matches counts. Registries answer "denied" for a
// repository that does not exist as well, and say so.
var imageWords = []struct {
	cause string
	words *pattern
}{
	{"image-name-invalid", newPattern(`InvalidImageName|invalid reference format|couldn't parse image`)},
	{"image-platform-mismatch", newPattern(`(?i)no match(ing manifest)? for (platform|linux|windows)|no matching manifest for |does not match the (specified|detected host) platform|image operating system .{1,40} cannot be used|exec format error`)},
	{"image-not-present", newPattern(`ErrImageNeverPull|is not present with pull policy of Never`)},
	{"image-pull-rate-limited", newPattern(`(?i)toomanyrequests|429 Too Many|rate limit`)},
	{"image-registry-unreachable", newPattern(`(?i)no such host|connection refused|i/o timeout|x509:|TLS handshake|network is unreachable|RegistryUnavailable|context deadline exceeded`)},
	{"image-pull-unauthorized", newPattern(`(?i)unauthorized|authentication required|authorization failed|403 Forbidden|denied|no basic auth`)},
	{"image-not-found", newPattern(`(?i)not found|manifest unknown|name unknown|NotFound|does not exist`)},
}

// imageNotPulled finds containers that wait for an image that cannot be had.
func imageNotPulled(f *Facts) []Finding {
	var out []Finding
	for c := range f.failingContainers() {
		reason, message := c.waitingReason()
		if !slices.Contains(imageReasons, reason) {
			continue
		}
		said := f.saidOfImage(c, message)
		n := Finding{
			Cause: imageCause(reason, said), Object: f.Mend(), Confidence: nightcrier.High, Observed: said,
			WrongIf: "the image could be pulled in the meantime",
			Test: testByGet(c.pod.Object.Namespace, "pod", c.pod.Object.Name).
				decidesBetween("it still waits for its image", "it waits for nothing, or for something else"),
		}
		n.Summary = fmt.Sprintf("%s cannot start: %s", c.describeIn(f), causeOf(n.Cause).Meaning)
		if image := c.image(); image != "" {
			n.Summary += " (" + image + ")"
		}
		n.Summary += "."
		if n.Cause == "image-pull-failed" {
			n.Confidence = nightcrier.Medium
		}
		n.Lack = lackOfImage(c, n.Cause, said)
		n.Actions = imageActions(f, n.Cause, c.image())
		if n.Cause == "image-pull-secret-missing" && n.Lack != nil {
			n.Actions[0] = n.Lack.repairAction(f.Mend().String())
		}
		out = append(out, n)
	}
	return out
}

func (c container) image() string {
	if c.spec.Image != "" {
		return c.spec.Image
	}
	return c.status.Image
}

// saidOfImage is all that was said of the image: the container's state first,
// then the newest failure and the newest complaint about a pull secret.
func (f *Facts) saidOfImage(c container, message string) []Observation {
	reason, _ := c.waitingReason()
	text := fmt.Sprintf("%s waits: %s", c, reason)
	if image := c.image(); image != "" {
		text += ", image " + image
	}
	said := []Observation{{Text: text, Quote: message, Ref: c.pod.Ref}}
	seen := map[string]bool{}
	for e := range f.eventsOf("Pod", c.pod.Object.Name) {
		about := e.Object.Reason == "FailedToRetrieveImagePullSecret" ||
			slices.Contains([]string{"Failed", "InspectFailed", "ErrImageNeverPull"}, e.Object.Reason) && len(e.Object.Message) > len(e.Object.Reason)+8
		if about && !seen[e.Object.Reason] && !otherImage(e.Object.Message, c.image()) {
			seen[e.Object.Reason] = true
			said = append(said, sawEvent(e))
		}
	}
	return said
}

var quotedImage = newPattern(`image "([^"]{1,500})"`)

// otherImage reports whether a message is about an image, and not this one.
func otherImage(message, image string) bool {
	m := quotedImage.FindStringSubmatch(message)
	return m != nil && image != "" && m[1] != image
}

// sawEvent is what an Event of the cluster says.
func sawEvent(e Read[corev1.Event]) Observation {
	o := e.Object.InvolvedObject
	return Observation{
		Text:  fmt.Sprintf("event %s about %s %s", e.Object.Reason, o.Kind, o.Name),
		Quote: e.Object.Message, Ref: e.Ref,
	}
}

// imageCause decides from everything said together.
func imageCause(reason string, said []Observation) string {
	all := reason
	secretMissing := false
	for _, o := range said {
		all += "\n" + o.Quote
		secretMissing = secretMissing || missingPullSecret.MatchString(o.Text+o.Quote)
	}
	for _, w := range imageWords {
		if !w.words.MatchString(all) {
			continue
		}
		if secretMissing && w.cause == "image-pull-unauthorized" {
			return "image-pull-secret-missing"
		}
		return w.cause
	}
	return "image-pull-failed"
}

var pullSecrets = newPattern(`image pull secrets \(([^),\s]{1,253})`)

// lackOfImage is what a container that gets no image lacks, nil where it is the image
// itself, or the right to it: the pull secret, or the registry.
func lackOfImage(c container, cause string, said []Observation) *lack {
	switch cause {
	case "image-pull-secret-missing":
		for _, o := range said {
			if m := pullSecrets.FindStringSubmatch(o.Quote); m != nil {
				return &lack{object: nightcrier.Object{Kind: "Secret", Namespace: c.pod.Object.Namespace, Name: m[1]}, pulls: true}
			}
		}
	case "image-pull-rate-limited", "image-registry-unreachable":
		return &lack{object: nightcrier.Object{Kind: hostKind, Name: registryOf(c.image())}}
	}
	return nil
}

// registryOf is the host of an image's registry; Docker Hub's where it names none.
func registryOf(image string) string {
	host, _, path := strings.Cut(image, "/")
	if !path || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return "docker.io"
	}
	return host
}

var missingPullSecret = newPattern(`FailedToRetrieveImagePullSecret|Unable to retrieve some image pull secrets`)

func imageActions(f *Facts, cause, image string) []Step {
	mend := f.Mend().String()
	switch cause {
	case "image-platform-mismatch":
		return platformActions
	case "image-not-found", "image-name-invalid", "image-not-present":
		return []Step{
			{Action: "Correct the image " + image + " of " + mend + " to one that exists", Do: doEdit, Outcome: "the image is pulled and the Pod starts", Risk: "another version may behave differently"},
			{Action: "Roll back to the image that ran before", Do: doUndo, Outcome: "the earlier version runs", Risk: "loses what the rollout brought"},
			{Action: "Check that the build that should have pushed it succeeded", Outcome: "tells a wrong name from an image that was never made", Risk: "none: read only"},
		}
	case "image-pull-unauthorized", "image-pull-secret-missing":
		return []Step{
			{Action: "Create or renew the pull secret that " + mend + " names, in its namespace", Outcome: "the registry accepts the pull", Risk: "a wrong credential locks out others that share it"},
			{Action: "Check that the repository's name is right: registries answer the same for one that does not exist", Outcome: "tells a missing right from a wrong name", Risk: "none: read only"},
		}
	}
	return []Step{
		{Action: "Check from the node that the registry of " + image + " answers", Outcome: "tells a network fault from one of the registry", Risk: "none: read only"},
		{Action: "Use a mirror or an image that the nodes already have", Outcome: "the Pod starts", Risk: "another version may behave differently"},
	}
}
