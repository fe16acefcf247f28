package kubetool

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/changes"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

// Bounds of Helm's history.
const (
	maxReleases  = 200
	shownHistory = 10
)

// stored is where a release is kept: a Secret with labels that Helm sets.
type stored struct {
	secret, release, status string
	version                 int
	made                    time.Time
}

// writeHelmHistory tells the history of one release.
func (r *reading) writeHelmHistory(ctx context.Context, ns, name string) error {
	list, err := r.storedReleases(ctx, ns, name)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return nightcrier.Errorf(nightcrier.NotFound, "namespace %s keeps no Helm release %q", ns, name)
	}
	r.writeTextf("Helm release %s in namespace %s: %d revisions on record\n", name, ns, len(list))
	rows := [][]string{{"REVISION", "STATUS", "DEPLOYED", "CHART", "APP VERSION", "DESCRIPTION"}}
	for _, s := range list[:min(len(list), shownHistory)] {
		row, err := r.releaseRow(ctx, ns, s)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	r.writeTextf("%s", formatTable(rows))
	return nil
}

// writeReleases lists the newest revision of each release of a namespace. That they
// may not be listed is said, not an error: most credentials may not.
func (r *reading) writeReleases(ctx context.Context, ns string) error {
	if r.set.cfg.Releases == nil {
		return nil
	}
	list, err := r.storedReleases(ctx, ns, "")
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		r.writeTextf("Helm releases: not known: %s\n", shortLine(err.Error(), 300))
		return nil
	}
	rows := [][]string{{"RELEASE", "REVISION", "STATUS", "MADE"}}
	seen := map[string]bool{}
	for _, s := range list {
		if !seen[s.release] {
			seen[s.release] = true
			rows = append(rows, []string{s.release, strconv.Itoa(s.version), s.status, formatAgo(r.currentTime(), s.made)})
		}
	}
	if len(rows) == 1 {
		r.writeTextf("Helm releases: none\n")
		return nil
	}
	r.writeTextf("Helm releases (kind HelmRelease shows their history):\n%s", formatTable(rows))
	return nil
}

// storedReleases finds the Secrets of a release, or of all, by their labels.
func (r *reading) storedReleases(ctx context.Context, ns, name string) ([]stored, error) {
	if r.set.cfg.Releases == nil {
		return nil, nightcrier.Errorf(nightcrier.Refused, "Helm releases are not read here")
	}
	selector := "owner=helm"
	if name != "" {
		selector += ",name=" + name
	}
	values := url.Values{"labelSelector": {selector}, "limit": {strconv.Itoa(maxReleases)}}
	doc, err := r.readRecorded(ctx, query{path: kinds.MustNamed("Secret").Path(ns), values: values, accept: acceptMetaList, max: maxList, kind: "list"})
	if err != nil {
		return nil, err
	}
	var list []stored
	for _, item := range ListAt(doc, "items") {
		label := func(key string) string { return TextAt(item, "metadata", "labels", key) }
		s := stored{secret: TextAt(item, "metadata", "name"), release: label("name"), status: label("status"), made: timeAt(item, "metadata", "creationTimestamp")}
		s.version, _ = strconv.Atoi(label("version")) // unnumbered is oldest
		if strings.HasPrefix(s.secret, "sh.helm.release.v1.") {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b stored) int {
		return cmp.Or(cmp.Compare(b.version, a.version), cmp.Compare(a.release, b.release))
	})
	return list, nil
}

// releaseRow reads one revision; of the Secret only the metadata inside is kept.
func (r *reading) releaseRow(ctx context.Context, ns string, s stored) ([]string, error) {
	if err := checkNames("Secret", ns, s.secret); err != nil {
		return nil, err
	}
	path := kinds.MustNamed("Secret").Path(ns) + "/" + url.PathEscape(s.secret)
	raw, err := r.set.cfg.Releases.Read(ctx, path, nil, acceptJSON, maxObject)
	if err != nil {
		return nil, err
	}
	rel, err := changes.UnpackRelease(raw)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "Helm release %s: %w", s.secret, err)
	}
	body, err := json.Marshal(rel)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "Helm release %s: %w", s.secret, err)
	}
	body = r.set.cfg.Mask(body)
	if err := r.recordBody(query{path: path + " (metadata of the Helm release inside)", kind: "object"}, body); err != nil {
		return nil, err
	}
	var shown changes.Release
	if err := json.Unmarshal(body, &shown); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "Helm release %s: masking broke the JSON: %w", s.secret, err)
	}
	deployed, _ := time.Parse(time.RFC3339Nano, shown.Info.LastDeployed) // unreadable is unknown
	chart := strings.Trim(shown.Chart.Metadata.Name+" "+shown.Chart.Metadata.Version, " ")
	return []string{strconv.Itoa(shown.Version), shown.Info.Status, formatAgo(r.currentTime(), deployed), chart, shown.Chart.Metadata.AppVersion, shown.Info.Description}, nil
}
