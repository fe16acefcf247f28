package pods

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var imageRules = scene.Area{Name: "image", Rules: []scene.Rule{imageNotPulled}, Causes: imageCauses}

var imageCauses = []scene.Cause{
	{ID: "image-name-invalid", Category: "Pod", Meaning: "the image reference cannot be parsed", Rank: scene.RankStated},
	{ID: "image-not-found", Category: "Pod", Meaning: "the registry has no such image or tag", Rank: scene.RankStated},
	{ID: "image-not-present", Category: "Pod", Meaning: "the pull policy forbids pulling and the node does not have the image", Rank: scene.RankStated},
	{ID: "image-platform-mismatch", Category: "Pod", Meaning: "the image is built for another operating system or processor than the node has", Rank: scene.RankStated},
	{ID: "image-pull-failed", Category: "Pod", Meaning: "the image cannot be pulled; the cluster does not say why", Rank: scene.RankStated - 1, Symptom: true},
	{ID: "image-pull-rate-limited", Category: "Pod", Meaning: "the registry refuses because of too many pulls", Rank: scene.RankStated},
	{ID: "image-pull-secret-missing", Category: "Pod", Meaning: "the pull secret that the Pod names does not exist", Rank: scene.RankStated + 1},
	{ID: "image-pull-unauthorized", Category: "Pod", Meaning: "the registry refuses the credential, or none was sent", Rank: scene.RankStated},
	{ID: "image-registry-unreachable", Category: "Network", Meaning: "the node cannot reach the registry", Rank: scene.RankStated},
}

// imageReasons are the reasons that a container waits for its image with.
var imageReasons = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
}

// imageWords tell the cause from what the container runtime and the registry
// said; the first that matches counts. Registries answer "denied" for a
// repository that does not exist as well, and say so.
var imageWords = []struct {
	cause string
	words *scene.Pattern
}{
	{"image-name-invalid", scene.NewPattern(`InvalidImageName|invalid reference format|couldn't parse image`)},
	{"image-platform-mismatch", scene.NewPattern(`(?i)no match(ing manifest)? for (platform|linux|windows)|no matching manifest for |does not match the (specified|detected host) platform|image operating system .{1,40} cannot be used|exec format error`)},
	{"image-not-present", scene.NewPattern(`ErrImageNeverPull|is not present with pull policy of Never`)},
	{"image-pull-rate-limited", scene.NewPattern(`(?i)toomanyrequests|429 Too Many|rate limit`)},
	{"image-registry-unreachable", scene.NewPattern(`(?i)no such host|connection refused|i/o timeout|x509:|TLS handshake|network is unreachable|RegistryUnavailable|context deadline exceeded`)},
	{"image-pull-unauthorized", scene.NewPattern(`(?i)unauthorized|authentication required|authorization failed|403 Forbidden|denied|no basic auth`)},
	{"image-not-found", scene.NewPattern(`(?i)not found|manifest unknown|name unknown|NotFound|does not exist`)},
}

// imageNotPulled finds containers that wait for an image that cannot be had.
func imageNotPulled(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for c := range f.FailingContainers() {
		reason, message := c.WaitingReason()
		if !slices.Contains(imageReasons, reason) {
			continue
		}
		said := saidOfImage(f, c, message)
		n := scene.Finding{
			Cause: imageCause(reason, said), Object: f.Mend(), Confidence: nightcrier.High, Observed: said,
			WrongIf: "the image could be pulled in the meantime",
			Test: scene.GetTest(c.Pod.Object.Namespace, "pod", c.Pod.Object.Name).
				DecidesBetween("it still waits for its image", "it waits for nothing, or for something else"),
		}
		n.Summary = fmt.Sprintf("%s cannot start: %s", c.DescribeIn(f), scene.MeaningOf(imageCauses, n.Cause))
		if image := image(c); image != "" {
			n.Summary += " (" + image + ")"
		}
		n.Summary += "."
		if why := whyNotPulled(said); why != "" {
			n.Summary = strings.TrimSuffix(n.Summary, ".") + "; what was said: " + why
		}
		if n.Cause == "image-pull-failed" {
			n.Confidence = nightcrier.Medium
		}
		n.Lack = lackOfImage(c, n.Cause, said)
		n.Actions = imageActions(f, n.Cause, image(c))
		if n.Cause == "image-pull-secret-missing" && n.Lack != nil {
			n.Actions[0] = n.Lack.RepairAction(f.Mend().String())
		}
		out = append(out, n)
	}
	return out
}

// whyNotPulled is the end of the longest that was said, which holds the reason.
func whyNotPulled(said []scene.Observation) string {
	longest := slices.MaxFunc(said, func(a, b scene.Observation) int { return cmp.Compare(len(a.Quote), len(b.Quote)) }).Quote
	if len(longest) < len("Back-off pulling image") || strings.HasPrefix(longest, "Back-off pulling image") && !strings.Contains(longest, ": ErrImagePull: ") {
		return ""
	}
	return text.CutMiddle(longest, scene.MaxQuote)
}

func image(c scene.Container) string {
	if c.Spec.Image != "" {
		return c.Spec.Image
	}
	return c.Status.Image
}

// saidOfImage is all that was said of the image: the container's state first,
// then the newest failure and the newest complaint about a pull secret.
func saidOfImage(f *scene.Facts, c scene.Container, message string) []scene.Observation {
	reason, _ := c.WaitingReason()
	about := fmt.Sprintf("%s waits: %s", c, reason)
	if image := image(c); image != "" {
		about += ", image " + image
	}
	said := []scene.Observation{{Text: about, Quote: message, Ref: c.Pod.Ref}}
	seen := map[string]bool{}
	for e := range f.EventsOf("Pod", c.Pod.Object.Name) {
		about := e.Object.Reason == "FailedToRetrieveImagePullSecret" ||
			slices.Contains([]string{"Failed", "InspectFailed", "ErrImageNeverPull"}, e.Object.Reason) && len(e.Object.Message) > len(e.Object.Reason)+8
		if about && !seen[e.Object.Reason] && !otherImage(e.Object.Message, image(c)) {
			seen[e.Object.Reason] = true
			said = append(said, scene.ObserveEvent(e))
		}
	}
	return said
}

var quotedImage = scene.NewPattern(`image "([^"]{1,500})"`)

// otherImage reports whether a message is about an image, and not this one.
func otherImage(message, image string) bool {
	m := quotedImage.FindStringSubmatch(message)
	return m != nil && image != "" && m[1] != image
}

// imageCause decides from everything said together.
func imageCause(reason string, said []scene.Observation) string {
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

var pullSecrets = scene.NewPattern(`image pull secrets \(([^),\s]{1,253})`)

// lackOfImage is what a container that gets no image lacks, nil where it is the image
// itself, or the right to it: the pull secret, or the registry.
func lackOfImage(c scene.Container, cause string, said []scene.Observation) *scene.Lack {
	switch cause {
	case "image-pull-secret-missing":
		for _, o := range said {
			if m := pullSecrets.FindStringSubmatch(o.Quote); m != nil {
				return &scene.Lack{Object: nightcrier.Object{Kind: "Secret", Namespace: c.Pod.Object.Namespace, Name: m[1]}, Pulls: true}
			}
		}
	case "image-pull-rate-limited", "image-registry-unreachable":
		return &scene.Lack{Object: nightcrier.Object{Kind: scene.HostKind, Name: registryOf(image(c))}}
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

var missingPullSecret = scene.NewPattern(`FailedToRetrieveImagePullSecret|Unable to retrieve some image pull secrets`)

// renewSecret is the step that gives a workload the right to pull, by what its Pods name.
func renewSecret(f *scene.Facts, image string) string {
	if len(f.Pods) == 0 || f.Hearsay {
		return fmt.Sprintf("Create or renew the pull secret for %s that %s names, in its namespace", registryOf(image), f.Mend())
	}
	var names []string
	for _, ref := range f.Pods[0].Object.Spec.ImagePullSecrets {
		names = append(names, text.CutMiddle(ref.Name, scene.MaxQuote))
	}
	if len(names) == 0 {
		return fmt.Sprintf("Create a pull secret for %s and name it in the imagePullSecrets of %s, which names none, or of its ServiceAccount", registryOf(image), f.Mend())
	}
	return fmt.Sprintf("Create or renew the pull secret %s for %s in namespace %s, which %s names", strings.Join(names, ", "), registryOf(image), f.Mend().Namespace, f.Mend())
}

func imageActions(f *scene.Facts, cause, image string) []scene.Step {
	mend := f.Mend().String()
	switch cause {
	case "image-platform-mismatch":
		return platformActions
	case "image-not-found", "image-name-invalid", "image-not-present":
		return []scene.Step{
			{Action: "Correct the image " + image + " of " + mend + " to one that exists", Do: scene.DoEdit, Outcome: "the image is pulled and the Pod starts", Risk: "another version may behave differently"},
			{Action: "Roll back to the image that ran before", Do: scene.DoUndo, Outcome: "the earlier version runs", Risk: "loses what the rollout brought"},
			{Action: "Check that the build that should have pushed it succeeded", Outcome: "tells a wrong name from an image that was never made", Risk: "none: read only"},
		}
	case "image-pull-unauthorized", "image-pull-secret-missing":
		return []scene.Step{
			{Action: renewSecret(f, image), Outcome: "the registry accepts the pull", Risk: "a wrong credential locks out others that share it"},
			{Action: "Check that the name in " + image + " is right: registries answer the same for one that does not exist", Outcome: "tells a missing right from a wrong name", Risk: "none: read only"},
		}
	}
	return []scene.Step{
		{Action: "Check from the node that the registry of " + image + " answers", Outcome: "tells a network fault from one of the registry", Risk: "none: read only"},
		{Action: "Use a mirror or an image that the nodes already have", Outcome: "the Pod starts", Risk: "another version may behave differently"},
	}
}
