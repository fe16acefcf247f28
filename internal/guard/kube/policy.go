package kube

import (
	"cmp"
	"mime"
	"slices"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

// subresources are those that only show something. All others act, open a
// connection to somewhere, or hand out credentials.
var subresources = map[string]string{
	"exec":                "exec runs commands in a container: read its log instead",
	"attach":              "attach opens a container's terminal: read its log instead",
	"portforward":         "port-forward opens a connection into a Pod",
	"proxy":               "proxy passes requests on to Pods, Services and nodes",
	"token":               "token hands out credentials",
	"ephemeralcontainers": "ephemeral containers run code in a Pod; they are shown in the Pod itself",
	"eviction":            "eviction removes a Pod",
	"binding":             "binding places a Pod",
	"finalize":            "finalize removes a namespace",
	"approval":            "approval signs certificates",
}

// checkSubresource reports whether a subresource may be read; log is a Pod's alone.
func checkSubresource(group, resource, sub string) error {
	switch {
	case sub == "", sub == "status", sub == "scale":
		return nil
	case sub == "log" && group == "" && resource == "pods":
		return nil
	case sub == "log":
		return newDenialf("subresource", "log is read of Pods only")
	}
	why, ok := subresources[sub]
	if !ok {
		why = "the guard passes log, status and scale only"
	}
	return newDenialf("subresource", "%s", why)
}

// metadataOnly reports whether of such objects the metadata alone is shown:
// Secrets, whatever API keeps them, and tokens.
func metadataOnly(resource string) bool {
	return resource == "secrets" || strings.HasPrefix(resource, "oauth") && strings.HasSuffix(resource, "tokens")
}

// clusterWide are the resources that may be listed without a namespace when a
// guard is bound to some.
var clusterWide = func() (list []string) {
	for k := range kinds.All() {
		if k.ClusterWide {
			list = append(list, k.Resource())
		}
	}
	return list
}()

// checkPolicy says whether policy lets the read pass.
func (p *parts) checkPolicy(namespaces []string) error {
	if p.class != classResource {
		return nil
	}
	if err := checkSubresource(p.group, p.resource, p.subresource); err != nil {
		return err
	}
	if len(namespaces) == 0 || slices.Contains(namespaces, p.namespace) {
		return nil
	}
	if p.namespace == "" && (p.name != "" || slices.Contains(clusterWide, p.qualifiedResource())) {
		return nil
	}
	return newDenialf("namespace", "this guard reads namespace %s only: name it with -n", strings.Join(namespaces, ", "))
}

// Media types. Answers are JSON in one of its forms, or the text of a log.
const (
	mediaJSON  = "application/json"
	mediaText  = "text/plain"
	typeText   = "text/plain; charset=utf-8"
	mediaTable = "application/json;as=Table;v=v1;g=meta.k8s.io"
	mediaMeta  = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	mediaMetas = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	// mediaGroups asks for all API groups at once, with what older servers have.
	mediaGroups = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
		"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList," + mediaJSON
)

// form is how an answer is wanted.
type form struct {
	accept string
	// restore is set when metadata is fetched where the whole object was asked
	// for; the answer then says what kind it is of.
	restore bool
}

// negotiateForm chooses the form of the answer from what the caller accepts, the
// first that is JSON.
func (p *parts) negotiateForm(accept string) (form, error) {
	if p.subresource == "log" || p.class == classHealth {
		return form{accept: mediaText + ", */*"}, nil
	}
	accept = cmp.Or(accept, mediaJSON)
	for one := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(one)
		if err != nil || media != mediaJSON && media != "application/*" && media != "*/*" {
			continue
		}
		if f, ok := p.formFor(params); ok {
			return f, nil
		}
	}
	return form{}, newFailuref(406, "format", "answers are JSON only: accept application/json")
}

func (p *parts) formFor(params map[string]string) (form, bool) {
	meta := mediaMeta
	if p.verb == verbList {
		meta = mediaMetas
	}
	object := p.class == classResource && p.subresource == ""
	switch as := params["as"]; {
	case as == "" && object && metadataOnly(p.resource):
		return form{accept: meta, restore: p.group == ""}, true
	case as == "":
		return form{accept: mediaJSON}, true
	case as == "APIGroupDiscoveryList":
		return form{accept: mediaGroups}, p.path == "/api" || p.path == "/apis"
	case as == "Table":
		return form{accept: mediaTable}, object && params["v"] == "v1"
	case as == "PartialObjectMetadata", as == "PartialObjectMetadataList":
		return form{accept: meta}, object
	}
	return form{}, false
}

// applyLimits puts the guard's limits into the request. It reports whether a list may be cut
// where the caller did not ask for it, and after how many bytes of a log the caller wants
// it to be, 0 for nowhere: the guard cuts that, as it knows what is a secret.
func (p *parts) applyLimits(l Limits, f form) (cut bool, want int64) {
	if p.class != classResource {
		return false, 0
	}
	if f.accept != mediaTable || metadataOnly(p.resource) && p.optionValue("includeObject") == "Object" {
		p.dropOption("includeObject")
	}
	switch {
	case p.verb == verbList:
		return p.clampOption("limit", int64(l.Items)), 0
	case p.verb == verbWatch:
		p.clampOption("timeoutSeconds", max(1, int64(l.StreamTime.Seconds())))
	case p.subresource == "log":
		want = parseNumber(p.optionValue("limitBytes"))
		limit := l.LogBytes
		if p.isFollowing() {
			limit = l.StreamBytes
		}
		p.setOption("limitBytes", strconv.FormatInt(limit, 10))
	}
	return false, want
}

// clampOption makes an option at most limit, which is also its default, and reports
// whether it had to.
func (p *parts) clampOption(key string, limit int64) bool {
	if v := p.optionValue(key); v != "" && parseNumber(v) > 0 && parseNumber(v) <= limit {
		return false
	}
	p.setOption(key, strconv.FormatInt(limit, 10))
	return true
}

func (p *parts) dropOption(key string) {
	p.query = slices.DeleteFunc(p.query, func(o option) bool { return o.key == key })
}

// isFollowing reports whether a log is to be followed.
func (p *parts) isFollowing() bool { return p.subresource == "log" && isTrue(p.optionValue("follow")) }
